"""How the HTTP API describes itself: `/docs` for people, `/openapi.json` for programs."""

import re

import httpx
from jsonschema import Draft202012Validator


def test_the_page_of_the_description_loads_nothing_from_elsewhere(standing_client: httpx.Client) -> None:
    page = httpx.get(standing_client.base_url.join("/docs"))
    assert page.status_code == 200
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    loaded += re.findall(r"url: '([^']+)", page.text)
    assert len(loaded) == 4
    for address in loaded:
        # no key is needed, and a proxy may put all of it under a prefix
        assert not address.startswith("/")
        assert "//" not in address
        assert httpx.get(page.url.join(address)).status_code == 200
    assert "://" not in page.text
    assert "/docs" not in standing_client.get("/openapi.json").json()["paths"]


def test_every_body_is_described_with_examples_that_are_right(standing_client: httpx.Client) -> None:
    described = standing_client.get("/openapi.json").json()
    examples = 0
    for methods in described["paths"].values():
        for operation in methods.values():
            if "requestBody" not in operation:
                continue
            media = operation["requestBody"]["content"]["application/json"]
            validator = Draft202012Validator(media["schema"] | {"components": described["components"]})
            for example in media["examples"].values():
                assert list(validator.iter_errors(example["value"])) == []
                examples += 1
            assert {"401", "408", "413", "422", "503"} <= operation["responses"].keys()
    assert examples > 20


def test_whoever_tries_the_examples_forgets_nothing(standing_client: httpx.Client) -> None:
    # Given a tenant in which every example of a message was tried
    described = standing_client.get("/openapi.json").json()["paths"]

    def examples(path: str, method: str = "post") -> list[object]:
        media = described[path][method]["requestBody"]["content"]["application/json"]
        return [example["value"] for example in media["examples"].values()]

    for sent in examples("/v1/messages"):
        assert standing_client.post("/v1/messages", json=sent).status_code == 202
    # When every example of what has a body of its own and removes something is tried as it stands
    for subject in examples("/v1/forget"):
        answer = standing_client.post("/v1/forget", json=subject)
        # Then it names nothing that there is: a message's chat, a user, a chat or the tenant
        assert answer.status_code == 422 or answer.json()["seen"] is False
    # and no other of them can be tried without an id of one's own
    removing = {path for path, has in described.items() if "delete" in has or re.search("forget|merge", path)}
    assert {path for path in removing if "{" not in path} == {"/v1/forget"}
    for path, methods in described.items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                assert not {"example", "examples"} & {*parameter, *parameter["schema"]}, path
