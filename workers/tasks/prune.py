"""`backscroll.prune`: delete what has expired, tenant by tenant."""

import structlog
from celery import shared_task

from pipeline.prune import prune as prune_tenant
from pipeline.prune import retention_of
from pipeline.store import retention
from workers import resources

log = structlog.get_logger(__name__)


@shared_task(name="backscroll.prune")
def prune() -> None:
    """Prune every tenant by the settings."""
    with resources.waiting():
        _prune(resources.current())


def _prune(held: resources.Resources) -> None:
    with held.database.maintenance() as connection:
        tenants = retention.tenants(connection)
    for tenant_id in tenants:
        pruned = prune_tenant(held.database, tenant_id, retention_of(held.settings))
        if any(pruned.values()):
            log.info("pruned", tenant=tenant_id, **pruned)
