"""Tokens of an issuer: what opens something, and everything that nearly does; against an issuer with real keys."""

import base64
import hashlib
import hmac
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from dpi.errors import OptionError
from dpi.service._oidc import FORGOTTEN, FRESH, PAUSE, IssuedTokens, Issuer, IssuerKeys
from dpi.service.config import read_oidc
from serving import BEGIN, running

jwt = pytest.importorskip("jwt", reason="needs PyJWT: pip install -e '.[oidc]'")

URL = "https://login.example.org"
KEYS = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
ROLES = {"admin": ["boss"], "curator": ["gate"], "analyst": ["data-team", "readers"]}


def public(algorithm, key, identity, **more):
    """A key as an issuer shows it."""
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return made | {"kid": identity, "use": "sig"} | more


SHOWN = [public(name, key, name) for name, key in KEYS.items()]


def claims(**more):
    """What a token says that is valid; None leaves a claim out."""
    now = int(time.time())
    said = {"iss": URL, "aud": "dpi", "sub": "ada", "iat": now, "exp": now + 60, "roles": ["readers"]} | more
    return {name: value for name, value in said.items() if value is not None}


def token(algorithm="RS256", key=None, headers=None, **more):
    """A token that is signed."""
    head = {"kid": algorithm} | (headers or {})
    return jwt.encode(claims(**more), key or KEYS[algorithm], algorithm, headers=head)


def by_hand(head, content, secret=None):
    """A token that a library would not make."""

    def packed(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    text = packed(json.dumps(head).encode()) + b"." + packed(json.dumps(content).encode())
    sealed = b"" if secret is None else hmac.new(secret, text, hashlib.sha256).digest()
    return (text + b"." + packed(sealed)).decode()


@contextmanager
def issuing(keys):
    """An issuer that shows keys, and counts how often it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = keys if isinstance(keys, bytes) else json.dumps({"keys": keys}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jwks.json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def issuer():
    """The issuer's keys over HTTP."""
    with issuing(SHOWN) as (url, _):
        yield Issuer(issuer=URL, audience="dpi", jwks=url, roles=ROLES)


@pytest.fixture(scope="module")
def checks(issuer):
    """What checks its tokens."""
    return IssuedTokens(issuer)


def test_a_service_believes_its_issuer(tmp_path, issuer):
    """Beside random tokens, by role and route; what an administrator does is noted with their subject."""
    with running(tmp_path, oidc=issuer) as found:

        def status(path, given, method="GET", **more):
            headers = {"authorization": f"Bearer {given}"}
            return found.client().request(method, path, headers=headers, **more).status_code

        for algorithm in KEYS:
            assert status("/v1/streams/visits/releases", token(algorithm)) == 200
        assert status("/v1/metrics", token()) == 403
        assert status("/v1/metrics", token(roles="gate other")) == 200
        assert status("/v1/streams", token(exp=int(time.time()) - 3600)) == 401
        assert status("/v1/streams", found.tokens["analyst"]) == 200
        assert status("/v1/streams", found.tokens["analyst"] + "x") == 401
        new = {"name": "ages", "domain": ["a"], "epsilon": 1, "slot": "1h", "from": BEGIN}
        both = token(roles=["boss", "readers"], sub="grace")
        assert status("/v1/streams", both, "POST", json=new) == 201
        assert status("/v1/streams/ages/releases", both) == 200
        assert [each["by"] for each in found.service.acts.entries()] == ["admin oidc:grace"]
    with running(tmp_path) as found:  # and without an issuer, random tokens alone
        assert found.client().get("/v1/streams", headers={"authorization": f"Bearer {token()}"}).status_code == 401


def test_what_a_token_says_is_a_role(checks):
    """One of several values, a text of several, and nothing else."""
    assert checks.check(token()).roles == {"analyst"}
    assert checks.check(token(roles=["gate", "readers", "x"])).roles == {"curator", "analyst"}
    assert checks.check(token(roles="boss x")).roles == {"admin"}
    for said in (None, [], "admin", ["analyst"], {"admin": 1}, 5, [5, None, ["boss"]], "bossy"):
        assert checks.check(token(roles=said)) is None, said
    for subject in ("", "a\nb", "x" * 201):
        assert checks.check(token(sub=subject)) is None


def test_a_claim_may_lie_in_another(issuer):
    """As some issuers have it."""
    inner = IssuedTokens(Issuer(issuer=URL, audience="dpi", jwks=issuer.jwks, roles=ROLES, claim="realm_access.roles"))
    assert inner.check(token(realm_access={"roles": ["gate"]})).roles == {"curator"}
    assert inner.check(token(realm_access="gate")) is None
    assert inner.check(token()) is None


def test_claims_are_checked(checks):
    """Whose it is, for whom, since when and until when, up to a skew of 30 s; each is required."""
    now = int(time.time())
    for good in ({"exp": now - 10}, {"nbf": now + 10}, {"aud": ["x", "dpi"]}, {"iat": None}):
        assert checks.check(token(**good)) is not None, good
    for bad in (
        {"exp": now - 60}, {"exp": None}, {"exp": "soon"}, {"nbf": now + 120}, {"iat": now + 120}, {"aud": "others"},
        {"aud": None}, {"aud": ["dpi2"]}, {"iss": URL + "/"}, {"iss": None}, {"sub": None}, {"sub": 5},
    ):  # fmt: skip
        assert checks.check(token(**bad)) is None, bad


def test_only_the_issuers_keys_open(checks):
    """A foreign key under a known name, a key in the token itself, a name that is not known, none."""
    foreign = rsa.generate_private_key(65537, 2048)
    own = public("RS256", foreign, "RS256")
    assert checks.check(token(key=foreign)) is None
    assert checks.check(token(key=foreign, headers={"jwk": own})) is None
    assert checks.check(token(key=foreign, headers=dict.fromkeys(("jku", "x5u"), "http://127.0.0.1:1/"))) is None
    assert checks.check(token(headers={"kid": "unknown"})) is None
    assert checks.check(by_hand({"alg": "RS256"}, claims())) is None
    good = token()
    assert checks.check(good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")) is None
    head, body, seal = good.split(".")
    other = by_hand({}, claims(roles=["boss"])).split(".")[1]
    assert checks.check(f"{head}.{other}.{seal}") is None
    assert checks.check(f"{head}.{body}.") is None


def test_algorithms_are_those_that_were_allowed(checks, issuer):
    """No `none`, no secret made of a public key, no algorithm of another kind of key, none that was not named."""
    pem = (
        KEYS["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    for kind in ("none", "None", "NONE", "", None, 5, ["RS256"]):
        assert checks.check(by_hand({"alg": kind, "kid": "RS256", "typ": "JWT"}, claims())) is None
    for secret in (pem, pem.strip(), json.dumps(SHOWN[0]).encode(), b""):
        assert checks.check(by_hand({"alg": "HS256", "kid": "RS256"}, claims(), secret)) is None
        assert checks.check(by_hand({"alg": "RS256", "kid": "RS256"}, claims(), secret)) is None
    for algorithm, identity in (("RS256", "ES256"), ("ES256", "RS256"), ("EdDSA", "RS256"), ("RS256", "EdDSA")):
        assert checks.check(token(algorithm, headers={"kid": identity})) is None
    assert checks.check(token("PS256", KEYS["RS256"], headers={"kid": "RS256"})) is None
    wider = IssuedTokens(Issuer(issuer=URL, audience="dpi", jwks=issuer.jwks, roles=ROLES, algorithms=("PS256",)))
    assert wider.check(token("PS256", KEYS["RS256"], headers={"kid": "RS256"})) is not None
    assert wider.check(token()) is None
    assert checks.check(token(headers={"crit": ["b64"], "b64": True})) is None


def test_a_secret_or_a_weak_key_in_the_set_opens_nothing():
    """Also where the issuer itself shows one; nor one that says it is for something else."""
    weak, secret = rsa.generate_private_key(65537, 1024), b"x" * 32  # noqa: S505 - it is refused
    shared = {"kty": "oct", "k": base64.urlsafe_b64encode(secret).decode(), "kid": "HS256", "alg": "HS256"}
    other = public("RS256", KEYS["RS256"], "enc", use="enc")
    told = public("RS256", KEYS["RS256"], "told", alg="RS512")
    with issuing([shared, public("RS256", weak, "weak"), other, told, 5, {"kty": "RSA"}, SHOWN[1]]) as (url, _):
        checks = IssuedTokens(Issuer(issuer=URL, audience="dpi", jwks=url, roles=ROLES))
        with pytest.warns(jwt.InsecureKeyLengthWarning):
            assert checks.check(token(key=weak, headers={"kid": "weak"})) is None
        assert checks.check(by_hand({"alg": "HS256", "kid": "HS256"}, claims(), secret)) is None
        assert checks.check(token(headers={"kid": "enc"})) is None
        assert checks.check(token(headers={"kid": "told"})) is None
        assert checks.check(token("ES256")) is not None


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "x" * 20_000, "é.é.é", "\ud800", "dpi", "e30.e30.e30"])
def test_what_is_no_token_is_refused(checks, text):
    """Without an error."""
    assert checks.check(text) is None


def test_an_unknown_key_is_asked_for_but_not_more_often_than_that():
    """A new key is found after a pause; whatever tokens come, the issuer is asked once in it."""
    shown, now = [SHOWN[0]], [0.0]
    with issuing(shown) as (url, asked):
        keys = IssuerKeys(url, lambda: now[0])
        assert keys.find("RS256")["kid"] == "RS256"
        assert [keys.find(f"made up {number}") for number in range(100)] == [None] * 100
        assert len(asked) == 1
        shown.append(SHOWN[1])
        assert keys.find("ES256") is None
        now[0] = PAUSE
        assert keys.find("ES256")["kid"] == "ES256"
        assert len(asked) == 2
        del shown[0]  # one that is withdrawn is not believed for ever
        assert keys.find("RS256") is not None
        now[0] += FRESH + 1
        assert keys.find("RS256") is None


def test_an_issuer_that_is_gone_is_missed_after_a_day(tmp_path):
    """Keys that are known go on for so long; a file that is no set, or an answer that is too large, changes nothing."""
    place, now = tmp_path / "jwks.json", [0.0]
    place.write_text(json.dumps({"keys": SHOWN}))
    keys = IssuerKeys(str(place), lambda: now[0])
    assert keys.find("RS256") is not None
    for damaged in ("{", "[]", '{"keys": 5}', " " * (2 << 20)):
        place.write_text(damaged)
        now[0] += FRESH + PAUSE + 1
        assert keys.find("RS256") is not None
    now[0] = FORGOTTEN + 1
    assert keys.find("RS256") is None
    place.write_text(json.dumps({"keys": SHOWN}))
    now[0] += PAUSE
    assert keys.find("RS256") is not None
    with issuing(b" " * (2 << 20)) as (url, asked):
        assert IssuerKeys(url).find("RS256") is None
        assert len(asked) == 1


CONFIG = """
[serve]
store = "visits.db"
[serve.oidc]
issuer = "https://login.example.org"
audience = "dpi"
{more}
[serve.oidc.roles]
analyst = ["data-team"]
{roles}
"""


def test_a_configuration_names_an_issuer(tmp_path):
    """Files are looked for beside it; what is misspelt, missing or unsafe is refused with a sentence."""

    def stated(more='jwks = "jwks.json"', roles=""):
        (tmp_path / "dpi.toml").write_text(CONFIG.format(more=more, roles=roles))
        return read_oidc(tmp_path / "dpi.toml")

    assert stated().jwks == str(tmp_path / "jwks.json")
    assert stated('jwks = "https://x.org/k"\nalgorithms = ["ES256"]').algorithms == ["ES256"]
    for more, sentence in {
        "": "must say `jwks`",
        'jwks = "http://x.org/k"': "must be an https:// address",
        'jwks = "k"\nalgorithms = ["HS256"]': "`algorithms` of .* must be among RS256",
        'jwks = "k"\nalgorithms = ["none"]': "`algorithms` of .* must be among RS256",
        'jwks = "k"\nalgorithms = []': "`algorithms` of .* must be among RS256",
        'jwks = "k"\nalgorithms = "RS256"': "must be a list",
        'jwks = "k"\nskew = "1h"': "`skew` must be from 0s to 5m",
        'jwks = "k"\nclaims = "x"': "did you mean `claim`",
        'jwks = ""': "`jwks` of .* must be a text",
    }.items():
        with pytest.raises(OptionError, match=sentence):
            stated(more)
    for roles, sentence in {
        'king = ["x"]': "by role: admin",
        'curator = "gate"': "lists of texts",
        "curator = [5]": "lists of texts",
        'curator = ["data-team"]': "one value to two roles",
    }.items():
        with pytest.raises(OptionError, match=sentence):
            stated(roles=roles)


def padded(number, zeros):
    """A number as a key set writes it, with bytes of zero before it."""
    return (
        base64.urlsafe_b64encode(bytes(zeros) + number.to_bytes(-(-number.bit_length() // 8), "big"))
        .decode()
        .rstrip("=")
    )


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")  # of the library that signs
@pytest.mark.parametrize("bits", [1024, 2040, 2047])
def test_an_rsa_key_is_as_large_as_its_modulus(tmp_path, bits):
    """Bytes of zero before it make it no larger, and no smaller."""
    small = rsa.generate_private_key(65537, bits)
    modulus, good = small.public_key().public_numbers().n, KEYS["RS256"].public_key().public_numbers().n
    shown = [
        public("RS256", small, "small"),
        public("RS256", small, "padded", n=padded(modulus, 256)),
        public("RS256", KEYS["RS256"], "good", n=padded(good, 3)),
        public("RS256", small, "no number", n="*"),
        public("RS256", small, "no text", n=modulus),
    ]
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": shown}))
    checks = IssuedTokens(Issuer(issuer=URL, audience="dpi", jwks=str(path), roles=ROLES))
    for identity in ("small", "padded", "no number", "no text"):
        assert checks.check(token(key=small, headers={"kid": identity})) is None
    assert checks.check(token(headers={"kid": "good"})) is not None


@pytest.mark.parametrize(
    ("said", "opens"),
    [
        ({"key_ops": ["verify"]}, True),
        ({"key_ops": ["sign", "verify"]}, True),
        ({"key_ops": ["encrypt"]}, False),
        ({"key_ops": ["sign"]}, False),
        ({"key_ops": []}, False),
        ({"key_ops": "verify"}, False),
        ({"key_ops": None}, False),
        ({"use": "enc", "key_ops": ["verify"]}, False),
        ({"use": None}, False),
    ],
)
def test_a_key_checks_signatures_only_if_that_is_what_it_is_for(tmp_path, said, opens):
    """`use` and `key_ops` (RFC 7517, 4.2 and 4.3): one that is there must say so."""
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [public("ES256", KEYS["ES256"], "ES256", **said)]}))
    checks = IssuedTokens(Issuer(issuer=URL, audience="dpi", jwks=str(path), roles=ROLES))
    assert (checks.check(token("ES256")) is not None) == opens
