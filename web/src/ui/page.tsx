//! Small pieces every page shares: title, failure, not found, spinner.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { AlertIcon } from "./icons";
import { t } from "./texts";

export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · ${t.value.appName}` : t.value.appName;
  }, [title, t.value]);
}

export function Failed({ text, retry, children }: { text: string; retry?: () => void; children?: ComponentChildren }) {
  return (
    <div class="nothing" role="alert">
      <AlertIcon size={36} />
      <h2>{t.value.loadFailed}</h2>
      <p>{text}</p>
      {retry && (
        <button type="button" class="button" onClick={retry}>
          {t.value.tryAgain}
        </button>
      )}
      {children}
    </div>
  );
}

export function NotFound() {
  usePageTitle(t.value.notFoundTitle);
  return (
    <main id="content" class="narrow" tabIndex={-1}>
      <div class="nothing">
        <h1>{t.value.notFoundTitle}</h1>
        <p>{t.value.notFoundText}</p>
        <a class="button" href="/">
          {t.value.backToEvents}
        </a>
      </div>
    </main>
  );
}

export function Spinner() {
  return <span class="spinner" aria-hidden="true" />;
}
