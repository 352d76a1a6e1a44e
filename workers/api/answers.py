"""`POST /v1/contexts/{context_id}/answer`: what a bot made of a context."""

from fastapi import APIRouter

from pipeline.context import query_log
from pipeline.store.retry import persistently
from schemas.payloads import ContextAddress, parse_payload
from schemas.querylog import AnswerIn, AnswerOutcome
from workers.api.auth import Tenant
from workers.api.bodies import Body, parse
from workers.api.door import HeldDoor
from workers.api.errors import responses
from workers.api.openapi import ANSWER_BODY
from workers.api.routes import IdRoute

router = APIRouter(tags=["contexts"], route_class=IdRoute)


@router.post(
    "/v1/contexts/{context_id}/answer",
    summary="Report the answer to a context",
    responses=responses(401, 404, 408, 413, 422, 503),
    openapi_extra=ANSWER_BODY,
)
def post_answer(door: HeldDoor, tenant: Tenant, context_id: str, body: Body) -> AnswerOutcome:
    """Keep what was answered in the query log, and with `remember` question and answer as a memory.

    Sending the same again is harmless: the first answer to a context stands.
    """
    address = parse_payload(ContextAddress, {"context_id": context_id})
    given = parse(AnswerIn, body)

    def report() -> AnswerOutcome:
        return query_log.report(door.database, tenant, address.context_id, given, door.settings)

    answered = persistently(report)
    if answered.memory_id is not None:
        door.hinter.hint("embed")
    return answered
