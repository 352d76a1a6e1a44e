"""Decide what has expired and why: the rules of retention, without a clock or a database."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, kw_only=True)
class Retention:
    """What is kept, and for how long; None means for good."""

    # raw messages, by the sender's time
    message_age: timedelta | None
    # raw messages of one chat, the newest first
    messages_per_chat: int | None
    # memories of one session, the newest first
    memories_per_session: int
    # memories of one user, the most important and the newest first
    memories_per_user: int
    # the query log, by when was asked
    query_log_age: timedelta
    # edits whose message has not come, and payloads that were refused, by when they came
    pending_edit_age: timedelta
    # figures by day, receipts of forgetting and backfills that are done: what is kept of the service itself
    record_age: timedelta = timedelta(days=400)

    def oldest_message(self, now: datetime) -> datetime | None:
        """Return the time before which messages have expired.

        >>> kept = Retention(message_age=timedelta(days=1), messages_per_chat=None,
        ...                  memories_per_session=100, memories_per_user=200,
        ...                  query_log_age=timedelta(days=90), pending_edit_age=timedelta(days=30))
        >>> kept.oldest_message(datetime(2026, 5, 2))
        datetime.datetime(2026, 5, 1, 0, 0)
        """
        return None if self.message_age is None else now - self.message_age

    def oldest_refused(self, now: datetime) -> datetime:
        """Payloads refused before this have expired: they hold messages, which may expire sooner."""
        return now - min(self.pending_edit_age, self.message_age or self.pending_edit_age)

    def in_words(self) -> dict[str, str]:
        """Describe each rule in a sentence, for dry runs and logs."""
        age, count = self.message_age, self.messages_per_chat
        return {
            "messages_by_age": f"messages older than {age.days} days"
            if age
            else "off: messages of any age are kept",
            "messages_by_count": f"messages beyond the newest {count} of a chat"
            if count
            else "off: any number of messages is kept",
            "memories_expired": "memories whose time is up",
            "memories_over_session_cap": f"memories beyond the newest {self.memories_per_session} of a session",
            "memories_over_user_cap": f"memories beyond the {self.memories_per_user} that matter most of a user",
            "query_log": f"questions, and answers to them, older than {self.query_log_age.days} days",
            "pending_edits": f"edits whose message has not come for {self.pending_edit_age.days} days",
            "refused_payloads": f"payloads that were refused over {self.pending_edit_age.days} days ago, or before the "
            "messages that are kept",
            "merged_sessions": "pointers of sessions that were joined into others over a month ago",
            "session_closes": "closed sessions' ends, over a month ago, before which no message is left",
            "forget_receipts": f"receipts of what was forgotten over {self.record_age.days} days ago",
            "backfills": f"backfills that ended over {self.record_age.days} days ago",
            "daily_counters": f"figures of days over {self.record_age.days} days ago",
            "daily_counters_apart": "parts of the figures of past days, added up",
        }
