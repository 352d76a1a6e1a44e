"""A Slack bot that answers questions from memory, by Bolt."""

import os

from backscroll_client import Backscroll
from openai import OpenAI
from slack_bolt import App

memory, model = Backscroll(buffer="backscroll.sqlite"), OpenAI()
token, secret = os.environ["BOT_TOKEN"], os.environ["SLACK_SIGNING_SECRET"]
bot = App(token=token, signing_secret=secret, ignoring_self_events_enabled=False)


@bot.middleware
def tee(body, next):
    memory.tee("slack", body)
    next()


@bot.event("message")
def answer(event, say):
    if event.get("text", "").endswith("?") and not event.get("bot_id"):
        context = memory.context(f"slack:{event['channel']}", event["text"], user_id=f"slack:{event['user']}")
        completion = model.chat.completions.create(model="gpt-4.1-mini", messages=context.messages)
        say(completion.choices[0].message.content)


bot.start(int(os.environ.get("PORT", "3000")))
