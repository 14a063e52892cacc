"""Hints between the lab's schedulers and its workers; the database decides."""

from dragoman.lab.queue.in_process import InProcessQueue
from dragoman.lab.queue.interface import HintTopic, ItemOffer, Queue
from dragoman.lab.queue.opening import open_queue

__all__ = ["HintTopic", "InProcessQueue", "ItemOffer", "Queue", "open_queue"]
