"""MariaDB and MySQL: how they are reached, and what their errors mean."""

from dragoman.store.mysql.server import MysqlServer

__all__ = ["MysqlServer"]
