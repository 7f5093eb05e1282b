from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from sidecar import option_values as values
from sidecar.config import OPTIONS, Config, ConfigError, check_limits, check_summarizer, load_config, to_toml, unknown_variables
from sidecar.core.types import LimitsGiven


def test_options_table_and_config_have_the_same_names_in_the_same_order() -> None:
    assert tuple(option.name for option in OPTIONS) == Config.__struct_fields__


def test_options_have_every_limit() -> None:
    assert set(LimitsGiven.__struct_fields__) <= {option.name for option in OPTIONS}


def test_load_config_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "trimtab.toml"
    file.write_text('threads = 2\ncache_bytes = "1MiB"\nsoft_bytes = 4096\nsocket_mode = "0600"\n')
    environ = {"TRIMTAB_CACHE_BYTES": "2MiB", "TRIMTAB_SOFT_BYTES": "8KiB", "TRIMTAB_CONFIG": str(file)}
    resolved = load_config({"soft_bytes": "16KiB", "listen": (), "data_dir": None}, environ)
    config = resolved.config
    assert (config.threads, config.cache_bytes, config.soft_bytes, config.socket_mode) == (2, 2 << 20, 16 << 10, 0o600)
    assert config.quota_bytes == Config().quota_bytes
    assert [resolved.origins[name] for name in ("threads", "cache_bytes", "soft_bytes", "quota_bytes")] == [
        str(file),
        "TRIMTAB_CACHE_BYTES",
        "flag",
        "default",
    ]


def test_load_config_empty_variable_counts_as_not_given() -> None:
    assert load_config({}, {"TRIMTAB_THREADS": "", "TRIMTAB_CONFIG": ""}).config == Config()


def test_load_config_file_given_beats_file_of_the_variable(tmp_path: Path) -> None:
    given, other = tmp_path / "given.toml", tmp_path / "other.toml"
    given.write_text("threads = 3\n")
    other.write_text("threads = 4\n")
    assert load_config({}, {"TRIMTAB_CONFIG": str(other)}, given).config.threads == 3


def test_load_config_unknown_key_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "trimtab.toml"
    file.write_text("soft_byte = 4096\n")
    with pytest.raises(ConfigError, match=r"soft_byte.*did you mean 'soft_bytes'"):
        load_config({}, {}, file)


@pytest.mark.parametrize("text", [None, "threads = ", b"\xff"], ids=["missing", "no toml", "no utf-8"])
def test_load_config_file_that_cannot_be_read_is_an_error(tmp_path: Path, text: str | bytes | None) -> None:
    file = tmp_path / "trimtab.toml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match="cannot read"):
        load_config({}, {}, file)


def test_load_config_bad_value_names_option_and_origin() -> None:
    with pytest.raises(ConfigError, match=r"threads \(from TRIMTAB_THREADS\)"):
        load_config({}, {"TRIMTAB_THREADS": "many"})


def test_to_toml_gives_the_same_configuration_again(tmp_path: Path) -> None:
    flags = {
        "listen": ("unix:/run/a b.sock", "127.0.0.1:0"),
        "data_dir": 'dir "quoted" \\ \u00e9',
        "socket_mode": "0666",
        "insecure_tcp": True,
        "drain_timeout_s": "500ms",
        "read_back": "tool",
        "externalize_bytes": 0,
    }
    resolved = load_config(flags, {})
    file = tmp_path / "out.toml"
    file.write_text(to_toml(resolved))
    assert load_config({}, {}, file).config == resolved.config
    assert tomllib.loads(file.read_text())["externalize_bytes"] == 0


def test_unknown_variables_are_told_but_no_error() -> None:
    environ = {"TRIMTAB_SOFT_BYTE": "1", "TRIMTAB_PORT": "tcp://10.0.0.1:80", "TRIMTAB_THREADS": "2", "TRIMTAB_CORPUS": "x"}
    assert unknown_variables(environ) == ["TRIMTAB_PORT", "TRIMTAB_SOFT_BYTE"]
    assert load_config({}, environ).config.threads == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1.5 KiB", 1536), ("10", 10), (10, 10), ("2kB", 2000), ("1gb", 10**9), ("3 TiB", 3 << 40), ("0", 0)],
)
def test_parse_size_reads(text: object, size: int) -> None:
    assert values.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.3", "1 XiB", "1e6", -1, True, 1.5, None, "9" * 30, "\u0661"])
def test_parse_size_refuses(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not"):
        values.parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10.0), ("500ms", 0.5), ("2m", 120.0), (3, 3.0), (0.25, 0.25), ("1.5h", 5400.0), ("30d", 2_592_000.0)],
)
def test_parse_seconds_reads(text: object, seconds: float) -> None:
    assert values.parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1w", -1, True, float("nan"), float("inf"), "99999999999h", 10**400])
def test_parse_seconds_refuses(text: object) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        values.parse_seconds(text)


@pytest.mark.parametrize("text", [660, "0999", "66", "rw-rw----", "06600"])
def test_parse_mode_refuses(text: object) -> None:
    with pytest.raises(ValueError, match="is not a mode"):
        values.parse_mode(text)


def test_parse_mode_reads() -> None:
    assert [values.parse_mode(text) for text in ("660", "0660", "0o600")] == [0o660, 0o660, 0o600]


def test_parse_flag_reads_and_refuses() -> None:
    assert [values.parse_flag(text) for text in (True, "on", "0", "False")] == [True, True, False, False]
    with pytest.raises(ValueError, match="neither"):
        values.parse_flag("maybe")


def test_parse_list_splits_text_at_commas() -> None:
    assert values.parse_list("unix:/a, 127.0.0.1:1") == ("unix:/a", "127.0.0.1:1")
    assert values.parse_list(["unix:/a,b"]) == ("unix:/a,b",)
    with pytest.raises(ValueError, match="is not"):
        values.parse_list(5)


def test_readme_lists_every_option() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    section = readme.split("## Options")[1].split("## Limits")[0]
    assert [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")] == [option.name for option in OPTIONS]


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TRIMTAB_TARGET_BYTES": "1MiB"}, r"target_bytes \(from TRIMTAB_TARGET_BYTES\): .*above soft_bytes"),
        ({"TRIMTAB_SOFT_BYTES": "1023"}, r"soft_bytes \(from TRIMTAB_SOFT_BYTES\): .*at least 1024"),
        ({"TRIMTAB_HARD_BYTES": "0"}, r"hard_bytes \(from TRIMTAB_HARD_BYTES\)"),
        ({"TRIMTAB_WINDOW_TOKENS": "0"}, r"window_tokens \(from TRIMTAB_WINDOW_TOKENS\)"),
        ({"TRIMTAB_PRESET": "window"}, r"window_tokens: preset WINDOW needs"),
        ({"TRIMTAB_PRESET": "window", "TRIMTAB_WINDOW_TOKENS": "9000", "TRIMTAB_TARGET_BYTES": "20kB"}, r"target_bytes "),
    ],
)
def test_check_limits_that_no_call_could_work_with_names_option_and_origin(environ: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_limits(load_config({}, environ))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TRIMTAB_SOFT_BYTES": "1024", "TRIMTAB_TARGET_BYTES": "1024"},
        {"TRIMTAB_PRESET": "window", "TRIMTAB_WINDOW_TOKENS": "1"},
    ],
)
def test_check_limits_at_the_edge_pass(environ: dict[str, str]) -> None:
    resolved = load_config({}, environ)
    check_limits(resolved)
    assert resolved.config.preset == environ.get("TRIMTAB_PRESET", "balanced")


@pytest.mark.parametrize("size", ["0", "1023", "2GiB", "4GiB"])
def test_load_config_message_limit_that_grpc_cannot_have_is_refused(size: str) -> None:
    with pytest.raises(ConfigError, match=r"max_message_bytes \(from TRIMTAB_MAX_MESSAGE_BYTES\)"):
        load_config({}, {"TRIMTAB_MAX_MESSAGE_BYTES": size})


@pytest.mark.parametrize("text", ["a\udcff", "a\x00", "a\x7f", 5])
def test_parse_text_refuses(text: object) -> None:
    with pytest.raises(ValueError, match="is not plain text"):
        values.parse_text(text)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://host", "https://[::1]:1/a/b/"])
def test_parse_url_reads(url: str) -> None:
    assert values.parse_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["host/v1", "ftp://secret", "http://", "http://u:secret@h", "http://h?secret", "http://h#secret", "http://h:secret", 5]
    + ["http://h/ secret", "http://h/\nsecret", "http://h\\@secret", "http://secr\u00e9t"],
)
def test_parse_url_refuses_and_does_not_quote_it(url: object) -> None:
    with pytest.raises(ValueError, match="is not an address") as caught:
        values.parse_url(url)
    assert "secr" not in str(caught.value)


@pytest.mark.parametrize("text", ["sk-secret", "A B", "1A", "A=secret", 5])
def test_parse_variable_refuses_and_does_not_quote_it(text: object) -> None:
    with pytest.raises(ConfigError, match=r"summarizer_key_env \(from flag\): is not the name of a variable") as caught:
        load_config({"summarizer_key_env": text}, {})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"summarizer": "model"}, "summarizer = model needs summarizer_client"),
        ({"summarizer_model": "m"}, "summarizer_model needs summarizer_client"),
        ({"summarizer_base_url": "http://h"}, "summarizer_base_url needs summarizer_client"),
        ({"summarizer_key_file": "f"}, "summarizer_key_file needs summarizer_client"),
        ({"summarizer_key_env": "K"}, "summarizer_key_env needs summarizer_client"),
        ({"summarizer_client": "openai"}, "summarizer_model is not set"),
        (
            {"summarizer_client": "openai", "summarizer_model": "m", "summarizer_key_file": "f", "summarizer_key_env": "K"},
            "not both",
        ),
    ],
)
def test_check_summarizer_options_that_do_not_go_together_are_refused(flags: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_summarizer(load_config(flags, {}).config)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"summarizer": "caller", "compaction": False},
        {"summarizer": "model", "summarizer_client": "anthropic", "summarizer_model": "m"},
        {"summarizer_client": "openai", "summarizer_model": "m", "summarizer_base_url": "http://h/v1", "summarizer_key_env": "K"},
    ],
)
def test_check_summarizer_options_that_go_together_pass_and_come_back(flags: dict[str, object], tmp_path: Path) -> None:
    resolved = load_config(flags, {})
    check_summarizer(resolved.config)
    file = tmp_path / "out.toml"
    file.write_text(to_toml(resolved))
    assert load_config({}, {}, file).config == resolved.config
