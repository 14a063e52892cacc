"""Hints between the lab's scheduler and its workers; the database decides."""

from dragoman.lab.queue.in_process import InProcessQueue
from dragoman.lab.queue.interface import Offer, Queue, Topic

__all__ = ["InProcessQueue", "Offer", "Queue", "Topic"]
