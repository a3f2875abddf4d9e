import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clusterNamespace, secretsNamespace } from "../api/namespaces.ts";
import { Button } from "../components/button.tsx";
import { ErrorPanel } from "../components/error-panel.tsx";
import { Page } from "../components/page.tsx";
import { Empty, Loading } from "../components/states.tsx";
import { href, place } from "./router.ts";
import { SCREENS } from "./screens.ts";

/** The screen of the address. A change of namespace remounts it. */
export function ScreenHost() {
  const { screen: name } = place.value;
  const screen = SCREENS.find((entry) => entry.name === name);
  const [loaded, setLoaded] = useState<{ readonly name: string; readonly view: ComponentType }>();
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let isWanted = true;
    setError(null);
    document.title = `${screen?.label ?? "Not found"} · Sallyport`;
    screen?.load().then(
      (view) => isWanted && setLoaded({ name, view }),
      (failure: unknown) => isWanted && setError(failure),
    );
    return () => {
      isWanted = false;
    };
  }, [name]);
  if (!screen)
    return (
      <Page title="Not found">
        <Empty title="There is no such screen">
          <a href={href("")}>Go to the overview</a>
        </Empty>
      </Page>
    );
  if (error !== null)
    return (
      <Page title={screen.label}>
        <ErrorPanel title="The screen could not be loaded" error={error} />
        <Button icon="refresh" onClick={() => location.reload()}>
          Reload the page
        </Button>
      </Page>
    );
  if (loaded?.name !== name) return <Loading label={screen.label} />;
  const View = loaded.view;
  return (
    <Boundary key={`${name} ${secretsNamespace.value} ${clusterNamespace.value}`} label={screen.label}>
      <View />
    </Boundary>
  );
}

/** Keeps a failure of a screen's own code inside the screen. */
class Boundary extends Component<
  { readonly label: string; readonly children: ComponentChildren },
  { readonly error: unknown }
> {
  override state = { error: null as unknown };

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
  }

  override render(): ComponentChildren {
    if (this.state.error === null) return this.props.children;
    return (
      <Page title={this.props.label}>
        <ErrorPanel error={this.state.error} onRetry={() => this.setState({ error: null })} />
      </Page>
    );
  }
}
