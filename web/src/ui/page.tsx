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

interface FailedProps {
  text: string;
  retry?: () => void;
  /** the page's only heading, unless it stands within a page that has one */
  within?: boolean;
  children?: ComponentChildren;
}

export function Failed({ text, retry, within, children }: FailedProps) {
  const Heading = within ? "h2" : "h1";
  return (
    <div class="nothing" role="alert">
      <AlertIcon size={36} />
      <Heading>{t.value.loadFailed}</Heading>
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
