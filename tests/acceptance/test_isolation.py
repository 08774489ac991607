"""On a real Airflow: triggers and tasks that have no way to the store's database but the API of the api-server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from harness.deployment import AirflowDeployment
from harness.servers import DatabaseServer
from tests.acceptance.shop import Shop

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

DAGS = Path(__file__).with_name("isolated_dags")
API = "/incremental/api/v1"
ASSET = {"key": {"asset_name": "orders"}}


def migrated(server: DatabaseServer, deployment: AirflowDeployment) -> str:
    """A database with the store's tables, which nobody is told of."""
    store = server.create_database()
    deployment.program("airflow-incremental", "db", "upgrade", "--store", store)
    return store


@pytest.fixture(params=["full", "partial"])
def isolated(
    request: pytest.FixtureRequest, postgres_server: DatabaseServer, shop: Shop
) -> Iterator[tuple[AirflowDeployment, str]]:
    """An Airflow in which the api-server alone knows the store's database, or it and the triggerer."""
    metadata, of_api_server, of_triggerer = postgres_server.create_database(), {}, {}
    deployment = AirflowDeployment(
        metadata,
        dags=DAGS,
        environment={"AIRFLOW_CONN_SHOP": shop.url.replace("postgresql://", "postgres://")},
        of_component={"api-server": of_api_server, "triggerer": of_triggerer},
    )
    api = {"conn_type": "http", "schema": "http", "host": "127.0.0.1", "port": deployment.ports["api"]}
    deployment.env |= {
        "AIRFLOW_CONN_INCREMENTAL_STORE": json.dumps(api | {"login": "triggers", "password": "s3cret-of-triggers"}),
        "AIRFLOW__INCREMENTAL__STORE": "conn:incremental_store",
    }
    store = migrated(postgres_server, deployment)
    of_api_server["AIRFLOW__INCREMENTAL__API_STORE"] = store
    if request.param == "partial":
        of_triggerer["AIRFLOW__INCREMENTAL__STORE"] = store
    shop.execute("CREATE TABLE isolated (id bigserial PRIMARY KEY)")
    with deployment:
        yield deployment, store
    shop.execute("DROP TABLE isolated; DELETE FROM processed WHERE asset = 'isolated'")
    postgres_server.drop_database(metadata)
    postgres_server.drop_database(store)


def environments(airflow: AirflowDeployment, component: str) -> list[str]:
    """What each living process of a component was started with; one that ends meanwhile cannot be asked."""
    found = []
    for process in airflow.members(component):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(json.dumps(process.environ()))
    return found


def test_isolation_loses_and_repeats_nothing(
    request: pytest.FixtureRequest, isolated: tuple[AirflowDeployment, str], shop: Shop
) -> None:
    """Rows reach the consumer once, also over a kill of the api-server, which all of them depend on."""
    airflow, store = isolated
    airflow.unpause("consume_isolated")
    shop.execute("INSERT INTO isolated SELECT FROM generate_series(1, 20)")
    airflow.wait_for("20 rows are processed", lambda: len(shop.processed("isolated")) >= 20, 180)
    airflow.kill_component("api-server")
    shop.execute("INSERT INTO isolated SELECT FROM generate_series(1, 20)")
    airflow.start_component("api-server")
    airflow.wait_for("40 rows are processed", lambda: len(shop.processed("isolated")) >= 40, 180)
    assert shop.processed("isolated") == list(range(1, 41))
    listed = json.loads(airflow.program("airflow-incremental", "list", "--output", "json"))
    assert [each["watermark"] for each in listed] == ["isolated"]
    database = urlsplit(store).path.strip("/")
    full = request.node.callspec.params["isolated"] == "full"
    for component in ("scheduler", "dag-processor", *(["triggerer"] if full else [])):
        known = environments(airflow, component)
        assert known, f"{component} does not run"
        assert not [environment for environment in known if database in environment], f"{component} knows the store"
    logs = "".join(path.read_text(errors="replace") for path in airflow.home.rglob("*.log"))
    assert "s3cret-of-triggers" not in logs
    said = airflow.log("api-server").read_text(errors="replace")
    assert "operation=acknowledge caller=" in said
    assert ("operation=commit caller=" in said) == full


@pytest.fixture
def guarded(postgres_server: DatabaseServer, tmp_path: Path) -> Iterator[AirflowDeployment]:
    """An api-server with a viewer, an operator and an administrator."""
    metadata = postgres_server.create_database()
    roles = ("viewer", "op", "admin")
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({role: f"password of {role}" for role in roles}))
    deployment = AirflowDeployment(
        metadata,
        environment={
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{role}:{role}" for role in roles),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        },
    )
    store = migrated(postgres_server, deployment)
    deployment.env["AIRFLOW__INCREMENTAL__STORE"] = store
    deployment.cli("db", "migrate", timeout=180)
    try:
        deployment.start_component("api-server")
        deployment.wait_for("the api-server answers", deployment.rest.is_up, 180)
        yield deployment
    finally:
        deployment.stop()
        postgres_server.drop_database(metadata)
        postgres_server.drop_database(store)


def test_the_api_server_lets_users_do_what_airflow_lets_them_do_with_assets(guarded: AirflowDeployment) -> None:
    """Nobody without a login, reading for who may see assets, writing for who may make events of them."""
    with httpx.Client(base_url=guarded.url, timeout=30) as client:

        def login(role: str) -> str:
            answer = client.post("/auth/token", json={"username": role, "password": f"password of {role}"})
            return str(answer.json()["access_token"])

        def status(route: str, body: object, token: str | None) -> int:
            headers = {"Idempotency-Key": "k"} | ({"Authorization": f"Bearer {token}"} if token else {})
            return client.post(f"{API}/{route}", json=body, headers=headers).status_code

        assert client.get(f"{API}/health").json() == {"status": "healthy"}
        tokens = {role: login(role) for role in ("viewer", "op", "admin")}
        described = client.get(f"{API}/openapi.json", headers={"Authorization": f"Bearer {tokens['admin']}"}).json()
        assert len(described["paths"]) > 20
        for path, methods in described["paths"].items():
            for method in methods:
                anonymous = client.request(method, f"/incremental/api{path}", json={})
                forged = client.request(
                    method, f"/incremental/api{path}", json={}, headers={"Authorization": f"Bearer {tokens['admin']}x"}
                )
                if path != "/v1/health":
                    assert (anonymous.status_code, forged.status_code in (401, 403)) == (401, True), path
                    assert anonymous.headers["content-type"] == "application/problem+json"
        register = ASSET | {"watches": {"source": "table", "cursor": "id"}}
        found = {
            role: [status(*each, token) for each in (("load", ASSET), ("register", register))]
            for role, token in tokens.items()
        }
        assert found == {"viewer": [200, 403], "op": [200, 200], "admin": [200, 200]}
        assert status("forget", ASSET, tokens["viewer"]) == 403
        assert status("forget", ASSET, tokens["admin"]) == 200
