"""What the console's pages watch: the fleet as it changes, over ``/ws/console``."""

from dragoman.api.live.console.feed import ConsoleFeed
from dragoman.api.live.console.messages import ConsoleMessage, Watch
from dragoman.api.live.console.socket import ConsoleSocket

__all__ = ["ConsoleFeed", "ConsoleMessage", "ConsoleSocket", "Watch"]
