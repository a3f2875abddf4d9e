import { useEffect, useState } from "preact/hooks";
import { completeOidc } from "../api/login.ts";
import { LinkButton } from "../components/button.tsx";
import { ErrorPanel } from "../components/error-panel.tsx";
import { Loading } from "../components/states.tsx";
import { go } from "./router.ts";

/** Where the identity provider sends the browser back to. */
export function OidcCallback() {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    completeOidc().then((address) => go(address, { replace: true }), setError);
  }, []);
  return (
    <main class="login">
      <div class="login-box">
        <h1>Log-in with an identity provider</h1>
        {error === null ? (
          <Loading label="Checking the log-in" />
        ) : (
          <ErrorPanel title="The log-in has failed" error={error} />
        )}
        {error !== null && <LinkButton href="/ui/">Back to the log-in</LinkButton>}
      </div>
    </main>
  );
}
