//! A component that is drawn again only when one of the named properties changed.
import { Component, type ComponentType, h } from "preact";

export function memo<P extends object>(inner: ComponentType<P>, names: (keyof P)[]): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return names.some((name) => next[name] !== (this.props as P)[name]);
    }

    render() {
      return h(inner, this.props as P);
    }
  };
}
