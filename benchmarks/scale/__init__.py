"""How a cluster grows: what a job costs with more instances, more masters and more nodes."""
