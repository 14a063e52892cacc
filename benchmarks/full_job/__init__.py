"""A whole job through the scheduler: beside a bare relay, as speech, and beside task queues.

`run` is where it starts. Nothing is imported here, because peers come by in environments of their
own, which know nothing but the standard library and the peer.
"""
