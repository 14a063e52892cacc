"""Items a second with one, two and four workers on a database server, beside task queues."""
