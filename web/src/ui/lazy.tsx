//! A page whose code is fetched when it is first shown; while it comes, an empty main keeps the frame.
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Failed } from "./page";
import { errorText } from "./texts";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
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
    return (
      <main id="content" class="narrow" tabIndex={-1}>
        {failed.value && <Failed text={errorText("offline")} retry={() => void fetchCode()} />}
      </main>
    );
  };
}
