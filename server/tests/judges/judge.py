"""Stripe's own library for Python drives the simulator, as judge.mjs does for Node. Run by scripts/judges.sh."""

import json
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

import stripe

BASE = sys.argv[1].rstrip("/")
SECRET = "whsec_judge"
stripe.api_key = "sk_test_judge"
stripe.api_base = BASE
stripe.max_network_retries = 0
told = []


class Door(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        told.append((body, self.headers["Stripe-Signature"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def sim(what, **form):
    data = urllib.parse.urlencode(form).encode()
    urllib.request.urlopen(f"{BASE}/_sim/{what}", data=data).read()


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def create(**more):
    return stripe.PaymentIntent.create(amount=4750, currency="eur", payment_method_types=["card"], **more)


def an_intent_is_made_confirmed_and_read():
    made = create(metadata={"order": "ord_1"})
    assert made.status == "requires_payment_method"
    paid = stripe.PaymentIntent.confirm(made.id, payment_method="pm_card_visa", return_url="https://x.example")
    assert paid.status == "succeeded"
    read = stripe.PaymentIntent.retrieve(made.id, expand=["latest_charge"])
    assert read.metadata["order"] == "ord_1" and read.latest_charge.amount == 4750


def a_decline_is_a_card_error_with_its_code():
    made = create()
    method = "pm_card_visa_chargeDeclinedInsufficientFunds"
    error = refused(stripe.CardError, lambda: stripe.PaymentIntent.confirm(made.id, payment_method=method))
    assert error.code == "card_declined" and error.error.decline_code == "insufficient_funds"


def a_key_has_one_answer_and_one_meaning():
    key = str(uuid.uuid4())
    first, again = create(idempotency_key=key), create(idempotency_key=key)
    assert first.id == again.id
    refused(stripe.IdempotencyError, lambda: create(idempotency_key=key, description="another"))


def a_paid_intent_says_where_it_stands():
    paid = create(confirm=True, payment_method="pm_card_visa")
    error = refused(stripe.InvalidRequestError, lambda: stripe.PaymentIntent.cancel(paid.id))
    assert error.error.payment_intent.status == "succeeded"


def refunds_add_up_and_are_listed():
    paid = create(confirm=True, payment_method="pm_card_visa")
    stripe.Refund.create(payment_intent=paid.id, amount=750, metadata={"refund": "r1"})
    stripe.Refund.create(payment_intent=paid.id)
    refused(stripe.InvalidRequestError, lambda: stripe.Refund.create(payment_intent=paid.id))
    listed = [refund.amount for refund in stripe.Refund.list(payment_intent=paid.id).auto_paging_iter()]
    assert sorted(listed) == [750, 4000], listed


def lists_are_walked_to_their_end():
    assert len({event.id for event in stripe.Event.list(limit=2).auto_paging_iter()}) > 5


def strangers_and_a_busy_provider_are_told_apart():
    refused(stripe.AuthenticationError, lambda: stripe.PaymentIntent.list(api_key="nonsense"))
    sim("faults", busy_percent=100)
    refused(stripe.RateLimitError, create)
    sim("faults", busy_percent=0, outage="fail")
    refused(stripe.APIError, create)
    sim("faults", outage="none")


def webhooks_are_signed_as_the_library_expects():
    paid = create(confirm=True, payment_method="pm_card_visa")
    wanted = None
    for _ in range(3000):
        wanted = next((t for t in told if paid.id.encode() in t[0] and b"payment_intent.succeeded" in t[0]), None)
        if wanted:
            break
        time.sleep(0.01)
    assert wanted, f"no webhook tells that {paid.id} succeeded, among {len(told)}"
    body, signature = wanted
    event = stripe.Webhook.construct_event(body, signature, SECRET)
    assert event.data.object.id == paid.id and json.loads(body)["id"] == event.id
    wrong = lambda: stripe.Webhook.construct_event(body, signature, "whsec_other")
    refused(stripe.SignatureVerificationError, wrong)


def main():
    door = HTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    sim("webhooks", url=f"http://127.0.0.1:{door.server_port}/", secret=SECRET)
    checks = [
        an_intent_is_made_confirmed_and_read,
        a_decline_is_a_card_error_with_its_code,
        a_key_has_one_answer_and_one_meaning,
        a_paid_intent_says_where_it_stands,
        refunds_add_up_and_are_listed,
        lists_are_walked_to_their_end,
        strangers_and_a_busy_provider_are_told_apart,
        webhooks_are_signed_as_the_library_expects,
    ]
    failed = 0
    for check in checks:
        try:
            check()
            print(f"ok   {check.__name__}")
        except Exception as error:  # noqa: BLE001: a judge reports everything
            failed += 1
            print(f"FAIL {check.__name__}: {type(error).__name__}: {error}")
    version = getattr(stripe, "VERSION", None) or stripe._version.VERSION
    print(f"stripe for Python {version}: {len(checks) - failed} passed; {failed} failed")
    sys.exit(1 if failed else 0)


main()
