"""The store in object storage by its address: the entry point of ``s3://``, which brings the connection to it."""

from __future__ import annotations

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.wiring.connections import S3ClientFactory

__all__ = ["object_store"]


def object_store(url: str) -> WatermarkStore:
    """Return the store of an address such as ``s3://bucket/prefix?aws_conn_id=aws_default``; nothing connects yet.

    :raises ConfigurationError: when the address cannot be used.

    >>> object_store("s3://watermarks/prod?aws_conn_id=minio")
    <ObjectStore s3://watermarks/prod/>
    """
    address = ObjectAddress.parse(url)
    client = S3ClientFactory(aws_conn_id=address.conn_id, region_name=address.region)
    return ObjectStore(address=address, client=client)
