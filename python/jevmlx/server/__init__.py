"""The HTTP server: this library's decisions, and two public dialects of them."""

from .app import create_app
from .run import serve
from .settings import ServerSettings

__all__ = ["ServerSettings", "create_app", "serve"]
