"""From options to a model endpoint: what is refused at the start, where keys come from, and that they show up nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sidecar.app import engine_config, open_app
from sidecar.cli.main import _trimtab
from sidecar.config import Config, ConfigError, load_config
from sidecar.core.compaction import Summarizer
from sidecar.core.errors import SummarizerNotConfiguredError
from sidecar.summarize.key import KeySource
from sidecar.summarize.open import open_model
from tests.helpers.model_server import ModelServer
from trimtab.stubs import open_stubs
from trimtab.v1 import session_pb2

KEY = "sk-test-0123456789abcdef"


def config_of(**flags: object) -> Config:
    return load_config({"summarizer_client": "openai", "summarizer_model": "m", **flags}, {}).config


def test_open_model_without_a_client_is_none() -> None:
    assert open_model(load_config({}, {}).config, {}) is None


@pytest.mark.parametrize(("client", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_open_model_reads_the_vendors_own_variable(client: str, variable: str) -> None:
    config = config_of(summarizer_client=client)
    assert open_model(config, {variable: KEY}) is not None
    with pytest.raises(SummarizerNotConfiguredError, match=f"no key for the model endpoint in the variable {variable}"):
        open_model(config, {})


def test_open_model_key_of_a_named_place_is_needed_with_an_own_endpoint_too(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9"
    assert open_model(config_of(summarizer_base_url=url), {}) is not None
    with pytest.raises(SummarizerNotConfiguredError, match="the variable MINE"):
        open_model(config_of(summarizer_base_url=url, summarizer_key_env="MINE"), {"OPENAI_API_KEY": KEY})
    with pytest.raises(SummarizerNotConfiguredError, match="cannot be read: No such file"):
        open_model(config_of(summarizer_base_url=url, summarizer_key_file=str(tmp_path / "none")), {"OPENAI_API_KEY": KEY})


def test_open_model_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs summarizer_client"):
        open_model(Config(summarizer="model"), {})


def test_key_source_file_beats_variable_and_white_space_around_it_is_no_part(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\r\n")
    assert KeySource(file=str(file), variable="K", environ={"K": "other"}).read() == KEY


@pytest.mark.parametrize("content", [b"", b" \n", b"two words", b"two\nlines", b"\xff\xfe", "sch\u00f6n".encode(), b"a\x00b"])
def test_key_source_what_is_no_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(SummarizerNotConfiguredError) as caught:
        KeySource(file=str(file), optional=True).read()
    assert caught.value.message.endswith(("no key: one word of printable ASCII is wanted", f"endpoint in the file {file}"))


def test_key_source_large_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"k" * 70_000)
    with pytest.raises(SummarizerNotConfiguredError, match="is no key"):
        KeySource(file=str(file)).read()


def test_key_source_shows_its_place_only() -> None:
    assert repr(KeySource(variable="K", environ={"K": KEY})) == "KeySource(the variable K)"


def test_engine_config_takes_the_options_over() -> None:
    assert engine_config(Config()).compaction
    assert engine_config(Config()).summarizer is Summarizer.LEDGER
    made = engine_config(config_of(summarizer="model", compaction="off"))
    assert (made.summarizer, made.compaction) == (Summarizer.MODEL, False)


def test_app_tells_its_features_and_asks_nothing_at_the_start(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ModelServer() as server:
        config = config_of(
            listen=f"unix:{short_path}/s",
            data_dir=str(short_path / "data"),
            compaction=False,
            summarizer_base_url=server.base_url("openai"),
        )
        with open_app(config) as app, open_stubs(app.address) as stubs:
            info = stubs.sessions.GetServerInfo(session_pb2.GetServerInfoRequest())
            assert app.engine.model is not None
        assert list(info.features) == ["summarizer.model"]
        assert server.connection_count == 0


def test_app_without_the_key_does_not_start_and_leaves_no_store(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SummarizerNotConfiguredError):
        open_app(config_of(listen=f"unix:{short_path}/s", data_dir=str(short_path / "data")))
    assert not (short_path / "data").exists()


def test_config_command_shows_where_the_key_is_and_never_the_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    flags = ["--summarizer-client", "openai", "--summarizer-model", "small", "--summarizer-key-file", str(file)]
    shown = CliRunner().invoke(_trimtab, ["config", *flags], env={"OPENAI_API_KEY": KEY})
    assert shown.exit_code == 0
    assert f'summarizer_key_file = "{file}"' in shown.output
    assert KEY not in shown.output


def test_config_command_check_finds_a_client_without_a_model() -> None:
    refused = CliRunner().invoke(_trimtab, ["config", "--check", "--summarizer-client", "openai"])
    assert refused.exit_code == 2
    assert "summarizer_model is not set" in refused.output


def test_open_model_imports_no_sdk() -> None:
    program = (
        "import sys\nfrom sidecar.config import Config\nfrom sidecar.summarize.open import open_model\n"
        "config = Config(summarizer_client='openai', summarizer_model='m')\n"
        "assert open_model(config, {'OPENAI_API_KEY': 'k'}) is not None\n"
        "print([name for name in ('openai', 'anthropic', 'httpx', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_open_model_without_the_extra_names_it(client: str) -> None:
    program = (
        f"import sys\nsys.modules['{client}'] = None\nimport importlib.util\n"
        "real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, package=None: None if name == '{client}' else real(name, package)\n"
        "from sidecar.config import Config\nfrom sidecar.summarize.open import open_model\n"
        f"try:\n    open_model(Config(summarizer_client='{client}', summarizer_model='m'), {{}})\n"
        "except Exception as error:\n    print(type(error).__name__, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"SummarizerNotConfiguredError pip install 'trimtab[{client}]'\n"
