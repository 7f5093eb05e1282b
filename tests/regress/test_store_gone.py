"""A data folder that is deleted under a running sidecar: no stub is handed out whose original is nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.helpers.bodies import history
from tests.helpers.client import Sidecar, tight
from tests.helpers.server import Server


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A sidecar whose folder this test may delete."""
    with Server() as running:
        yield running


def test_fit_data_folder_deleted_hands_out_no_stub(own_server: Server) -> None:
    """DESIGN 3.7: what replaces something is durable before the reply that mentions it leaves."""
    assert own_server.channel is not None
    sidecar = Sidecar(own_server.channel)
    run = history("openai-chat").user("go").steps(30, 3000)
    sidecar.fit("run", run.body(), format="openai-chat")
    shutil.rmtree(own_server.data_dir)
    refused = sidecar.failure("run", run.body(), format="openai-chat", limits=tight(1024, 1024, keep_unit_count=0))
    assert refused.reason == "STORE_FAILED"
    assert own_server.is_alive()
