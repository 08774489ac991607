"""What the DAG parser refuses: each message names the parameter, its value and the remedy."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_incremental
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bucket": ""}, r"bucket=''"),
        (
            {"bucket": "s3://landing/orders/"},
            r"bucket='s3://landing/orders/' .* bucket='landing', and prefix='orders/?'",
        ),
        ({"bucket": "s3a://landing"}, r"bucket='s3a://landing' .* bucket='landing'$"),
        ({"bucket": "landing/orders"}, r"bucket='landing/orders' .* bucket='landing', and prefix='orders'"),
        ({"bucket": "s3://[x"}, r"bucket='s3://\[x' .* give the name alone"),
        ({"bucket": "my bucket"}, r"bucket='my bucket'"),
        ({"bucket": None}, r"bucket=None"),
        ({"bucket": "ab"}, r"bucket='ab' .* 3 to 63"),
        ({"bucket": "-landing"}, r"bucket='-landing' .* first and last"),
        ({"bucket": "landing."}, r"bucket='landing\.' .* first and last"),
        ({"bucket": "lan..ding"}, r"bucket='lan\.\.ding' .* no '\.\.'"),
        ({"bucket": "192.168.5.4"}, r"bucket='192\.168\.5\.4' .* no address"),
        ({"bucket": ["landing"]}, r"bucket=\['landing'\]"),
        ({"prefix": "s3://landing/orders/"}, r"prefix='s3://landing/orders/' .* prefix='orders/'"),
        ({"prefix": "s3://landing"}, r"prefix='s3://landing' .* prefix=''"),
        ({"prefix": None}, r"prefix=None"),
        ({"prefix": "é" * 600}, r"1200 bytes"),
        ({"pattern": "a[b"}, r"pattern='a\[b'"),
        ({"pattern": 3}, r"pattern=3"),
        ({"settle": -1}, r"settle=-1 "),
        ({"settle": 0}, r"settle=0 .* 1 to"),
        ({"settle": "2"}, r"settle='2'"),
        ({"settle": True}, r"settle=True"),
        ({"lateness": -0.5}, r"lateness=-0.5"),
        ({"lateness": math.inf}, r"lateness=inf"),
        ({"lateness": math.nan}, r"lateness=nan"),
        ({"limit": 0}, r"limit=0"),
        ({"limit": 1.5}, r"limit=1.5"),
        ({"limit": True}, r"limit=True"),
        ({"order": "newest"}, r"order='newest' .*'modified', 'key'"),
        ({"reread": -1}, r"reread=-1"),
        ({"pattern": "*.csv", "regex": ".*"}, r"pattern='\*\.csv' and regex='\.\*' .* give one"),
        ({"regex": "("}, r"regex='\(' is no regular expression"),
        ({"pattern": "regex:("}, r"pattern='regex:\(' is no regular expression"),
        ({"regex": ""}, r"regex='' matches no key"),
        ({"pattern": "regex:"}, r"pattern='regex:' matches no key"),
        ({"regex": "a{99999999999}"}, r"regex='a\{99999999999\}' is no regular expression: .* too large"),
        ({"regex": "(" * 3000}, r"regex='\(\(.* is no regular expression"),
        ({"prefix": "\udc80"}, r"prefix='\\udc80' .* UTF-8"),
        ({"prefix": "in/{Date:%Y/%m/%d}/"}, r"prefix='in/\{Date:.* write %Y"),
        ({"partition_timezone": "Europe/Berlin"}, r"partition_timezone='Europe/Berlin' .* prefix='' has none"),
        ({"order": "key", "lateness": 7200}, r"lateness=7200 .* order='modified'.* reread"),
        ({"order": "key", "settle": 5}, r"settle=5 .* order='modified'.* reread"),
        ({"reread": 60}, r"reread=60 .* order='key'.* lateness"),
        ({"suffix": ""}, r"suffix='' .*\.csv"),
        ({"suffix": []}, r"suffix=\[\]"),
        ({"suffix": [".csv", 3]}, r"suffix=\['\.csv', 3\]"),
        ({"storage_class": ""}, r"storage_class=''"),
        ({"storage_class": "standard"}, r"storage_class='standard' .* mean 'STANDARD'"),
        ({"storage_class": ["STANDARD", "GLACEIR"]}, r"storage_class='GLACEIR' .* mean 'GLACIER'"),
        ({"storage_class": "deep-archive"}, r"storage_class='deep-archive' .* mean 'DEEP_ARCHIVE'"),
        ({"min_size": -1}, r"min_size=-1"),
        ({"min_size": "1k"}, r"min_size='1k'"),
        ({"on_overwrite": "skip"}, r"on_overwrite='skip' .*'emit', 'ignore'"),
        ({"on_overwrite": "ignore", "lateness": 0}, r"on_overwrite='ignore' .* lateness=0"),
        ({"versioned": "yes"}, r"versioned='yes'"),
        ({"requester_pays": 1}, r"requester_pays=1"),
        ({"bucket_owner": 123456789012}, r"bucket_owner=123456789012 .* text"),
        ({"bucket_owner": "me"}, r"bucket_owner='me' .* 12 digits"),
    ],
)
def test_refused(arguments, message):
    """A mistake is named with its value and what to write instead."""
    with pytest.raises(ConfigurationError, match=message):
        check_s3_arguments(**{"bucket": "landing", **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"bucket": "my.bucket-1_old"},
        {"bucket": "Old_Bucket"},
        {"storage_class": ["STANDARD_IA", "EXPRESS_ONEZONE"]},
        {"storage_class": "STANDARD2"},  # a server that is like S3 names its own
        {"bucket": "arn:aws:s3:eu-central-1:123456789012:accesspoint/mine"},
        {"prefix": "/odd//prefix/"},
        {"prefix": "https://crawled.example/"},
        {"pattern": "**/*.csv"},
        {"settle": 1, "lateness": 0, "limit": 1},
    ],
)
def test_accepted(arguments):
    """What S3 allows is not refused."""
    check_s3_arguments(**{"bucket": "landing", **arguments})


def test_checking_loads_no_client():
    """The check runs in every DAG file, so it stays cheap to import."""
    code = (
        "import sys, airflow_provider_incremental.sources.s3_arguments;"
        "print([name for name in ('airflow', 'boto3', 'botocore', 'aiobotocore', 'sqlalchemy') if name in sys.modules])"
    )
    home = Path(airflow_provider_incremental.__file__).parents[1]
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=home)
    assert shown.stdout.strip() == "[]"
