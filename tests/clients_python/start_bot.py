"""Start an example bot as it is, with its library pointed at a stand-in of its platform: start_bot.py BOT URL."""

import runpy
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "ops/examples"


def point_python_telegram_bot(url: str) -> None:
    from telegram.ext import Application, ApplicationBuilder

    # the library has this for people with a Bot API server of their own
    Application.builder = staticmethod(lambda: ApplicationBuilder().base_url(f"{url}/bot"))  # type: ignore[method-assign]


def point_aiogram(url: str) -> None:
    from aiogram.client.telegram import PRODUCTION  # type: ignore[import-not-found]

    object.__setattr__(PRODUCTION, "base", f"{url}/bot{{token}}/{{method}}")


def point_discord(url: str) -> None:
    import yarl
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

    Route.BASE = url
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url.replace("http://", "ws://") + "/gateway")


def point_slack(url: str) -> None:
    from slack_bolt.app import app
    from slack_sdk import WebClient

    def client(token: str | None = None, logger: Any = None) -> WebClient:
        return WebClient(token=token, logger=logger, base_url=url)

    app.create_web_client = client  # type: ignore[attr-defined]


POINT = {
    "telegram_ptb": point_python_telegram_bot,
    "telegram_aiogram": point_aiogram,
    "discord_bot": point_discord,
    "slack_bolt_bot": point_slack,
}

if __name__ == "__main__":
    POINT[sys.argv[1]](sys.argv[2])
    runpy.run_path(str(EXAMPLES / f"{sys.argv[1]}.py"), run_name="__main__")
