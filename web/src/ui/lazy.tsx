//! A component whose code is fetched when it is first shown; while it comes, something plain keeps its place.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Failed } from "./page";
import { errorText, t } from "./texts";

/** `frame` holds the place until the code is there, and the failure when it cannot be had. */
export function lazy<P extends object>(
  load: () => Promise<ComponentType<P>>,
  frame: (inside: ComponentChildren) => ComponentChildren,
): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const ready = useSignal(loaded !== null);
    const failed = useSignal(false);
    const fetchCode = async () => {
      failed.value = false;
      try {
        loaded = await load();
        ready.value = true;
      } catch {
        failed.value = true;
      }
    };
    useEffect(() => {
      if (!ready.value) void fetchCode();
    }, []);
    const Loaded = loaded;
    if (ready.value && Loaded) return <Loaded {...props} />;
    return frame(failed.value && <Failed within text={errorText("offline")} retry={() => void fetchCode()} />);
  };
}

/** The frame of a page. */
export function pageFrame(inside: ComponentChildren) {
  return (
    <main id="content" class="narrow" tabIndex={-1}>
      {inside}
    </main>
  );
}

/** The frame of a part of a page. */
export function partFrame(inside: ComponentChildren) {
  return <div class="part-loading">{inside || t.value.loading}</div>;
}
