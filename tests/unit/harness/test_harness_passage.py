"""A process's own way to the API server: all goes by, but the one request that is kept back until it is let go."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import yaml

from harness import limits
from harness.passage import passage
from harness.waiting import wait_until
from testing.kit.http_face import HttpFace

PATH = "/apis/apps/v1/namespaces/shop/deployments/ads"
ADS = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ads", "namespace": "shop"}, "spec": {}}
MERGE = {"Content-Type": "application/merge-patch+json"}


def scaled(url: str, replicas: int) -> httpx.Response:
    body = f'{{"spec": {{"replicas": {replicas}}}}}'
    return httpx.patch(url + PATH, content=body, headers=MERGE, timeout=limits.ANSWER, trust_env=False)


def test_one_write_is_kept_back_while_others_go_by_and_lands_when_it_is_let_go(tmp_path: Path) -> None:
    with HttpFace.serving(ADS) as api, passage(api.kubeconfig(tmp_path)) as way:
        way.keep(lambda request: request.writes and request.body["spec"]["replicas"] > 3)
        assert scaled(way.url, 3).status_code == 200
        late = threading.Thread(target=scaled, args=(way.url, 4))
        late.start()
        kept = wait_until(lambda: way.kept, limits.ANSWER, "the write to be kept back")
        assert httpx.get(way.url + PATH, trust_env=False).json()["spec"] == {"replicas": 3}
        assert scaled(way.url, 5).status_code == 200
        assert kept.status == 0

        way.let_go()
        late.join()
        assert kept.status == 200
        assert [body["body"]["spec"]["replicas"] for method, _, body in api.requests if method == "PATCH"] == [3, 5, 4]
        assert [(one.method, one.status) for one in way.requests] == [
            ("PATCH", 200),
            ("PATCH", 200),
            ("GET", 200),
            ("PATCH", 200),
        ]


def test_only_who_starts_meanwhile_is_led_through(tmp_path: Path) -> None:
    with HttpFace.serving(ADS) as api:
        account = api.kubeconfig(tmp_path)
        before = account.read_text()
        with passage(account) as way:
            with way.leads():
                config = yaml.safe_load(account.read_text())
                assert config["clusters"][0]["cluster"] == {"server": way.url}
                assert config["users"] == yaml.safe_load(before)["users"]
            assert account.read_text() == before
