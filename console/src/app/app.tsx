import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { session } from "../api/session.ts";
import { ConfirmHost } from "../components/confirm.tsx";
import { ErrorPanel } from "../components/error-panel.tsx";
import { Loading } from "../components/states.tsx";
import { Toasts } from "../components/toasts.tsx";
import { Login } from "./login.tsx";
import { OidcCallback } from "./oidc-callback.tsx";
import { place } from "./router.ts";
import { Shell } from "./shell.tsx";

/** Screen of a shared secret, without a log-in. */
const SHARED = "open";

export function App() {
  const { screen } = place.value;
  if (screen === SHARED) return <Shared />;
  return (
    <>
      {screen === "oidc" ? <OidcCallback /> : session.value ? <Shell /> : <Login />}
      <ConfirmHost />
      <Toasts />
    </>
  );
}

function Shared() {
  const [loaded, setLoaded] = useState<{ readonly View: ComponentType }>();
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    import("../screens/secrets-group.ts").then(({ Receive }) => setLoaded({ View: Receive }), setError);
  }, []);
  return (
    <main class="login">
      {loaded ? <loaded.View /> : error === null ? <Loading /> : <ErrorPanel error={error} />}
      <Toasts />
    </main>
  );
}
