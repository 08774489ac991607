"""The address of a store in object storage: what it may say, and what is refused before anything connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores import registry
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.registry import has_tables, make_store
from tests.unit.test_provider_info import PROJECT


def test_an_address_names_bucket_prefix_and_connection():
    """All of it can be left out but the bucket."""
    given = ObjectAddress.parse("s3://my-bucket/a/b/?aws_conn_id=minio&region_name=eu-west-1&timeout=5")
    assert given == ObjectAddress(bucket="my-bucket", prefix="a/b/", conn_id="minio", region="eu-west-1", timeout=5.0)
    assert str(given) == "s3://my-bucket/a/b/"
    assert ObjectAddress.parse("s3://bucket") == ObjectAddress(bucket="bucket", conn_id="aws_default")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://key:secret@bucket/prefix", "login"),
        ("s3:///prefix", "bucket"),
        ("s3://Bad_Bucket!/prefix", "bucket"),
        ("s3://bucket/pre%20fix", "prefix"),
        ("s3://bucket/" + "x" * 501, "prefix"),
        ("s3://bucket/a#b", "prefix"),
        ("s3://bucket?endpoint=http://x", "endpoint"),
        ("s3://bucket?aws_conn_id=", "aws_conn_id"),
        ("s3://bucket?timeout=soon", "timeout"),
        ("s3://bucket?timeout=601", "timeout"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, says: str):
    """With the part that is wrong, and never with a secret."""
    with pytest.raises(ConfigurationError, match=says) as refused:
        ObjectAddress.parse(url)
    assert "secret" not in str(refused.value)


def test_the_package_brings_the_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The entry point that the project declares leads to the store; there are no tables."""
    places = PROJECT["entry-points"][registry.GROUP]
    package = tmp_path / "declared-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in places.items()]
    (package / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert repr(make_store("s3://bucket/prefix")) == "<ObjectStore s3://bucket/prefix/>"
    assert not has_tables("s3://bucket/prefix")
