//! Notices that come and go: refusals by code, the three seats beside one that just went, own losses aloud.
import { useEffect } from "preact/hooks";
import { app } from "../app";
import type { Notice } from "../booking/shop";
import type { RevokeReason } from "../proto/messages";
import { AlertIcon, CheckIcon, CloseIcon } from "./icons";
import { seatWords } from "./seat_words";
import { shownEvent } from "./shown_event";
import { errorText, t } from "./texts";

const SHOWN_MS = 6_000;
/** Choices need more time than sentences. */
const SHOWN_WITH_CHOICES_MS = 15_000;

export function Notices() {
  return (
    <div class="notices">
      {app.notices.value.map((notice) => (
        <NoticeCard key={notice.id} notice={notice} />
      ))}
    </div>
  );
}

function noticeText(notice: Notice): string {
  switch (notice.kind) {
    case "refused":
      return errorText(notice.refusal.code);
    case "expired":
      return t.value.expired;
    case "revoked":
      return t.value.revokedBy[notice.reason as RevokeReason] ?? t.value.revoked;
    case "offered":
      return t.value.offered;
    case "gone":
      return errorText("hold_not_found");
    case "extended":
      return t.value.extended;
    case "prices":
      return t.value.pricesChanged;
    case "seat_lost":
      return notice.alternatives.length > 0 ? t.value.alternatives : errorText("seat_taken");
  }
}

function NoticeCard({ notice }: { notice: Notice & { id: number } }) {
  const choices = notice.kind === "seat_lost" ? notice.alternatives.slice(0, 3) : [];
  const plan = shownEvent.value?.plan.value;
  const good = notice.kind === "extended" || notice.kind === "offered";
  const loss = !good && notice.kind !== "refused" && notice.kind !== "prices";

  useEffect(() => {
    const timer = setTimeout(() => app.dismiss(notice.id), choices.length > 0 ? SHOWN_WITH_CHOICES_MS : SHOWN_MS);
    return () => clearTimeout(timer);
  }, [notice.id]);

  return (
    <div class={`notice ${good ? "good" : ""}`} role={loss ? "alert" : "status"}>
      {good ? <CheckIcon /> : <AlertIcon />}
      <div class="notice-text">
        <p>{noticeText(notice)}</p>
        {choices.length > 0 && plan && notice.kind === "seat_lost" && (
          <div class="choices">
            {choices.map((seats) => (
              <button
                key={seats.join()}
                type="button"
                class="button small"
                onClick={() => {
                  app.dismiss(notice.id);
                  void app.shop.holdSeats(notice.event, seats);
                }}
              >
                {seats.map((seat) => seatWords(plan, seat)).join(", ")}
              </button>
            ))}
          </div>
        )}
      </div>
      <button type="button" class="icon-button" aria-label={t.value.dismiss} onClick={() => app.dismiss(notice.id)}>
        <CloseIcon size={18} />
      </button>
    </div>
  );
}
