import { session } from "../api/session.ts";
import { ConfirmHost } from "../components/confirm.tsx";
import { Toasts } from "../components/toasts.tsx";
import { Login } from "./login.tsx";
import { OidcCallback } from "./oidc-callback.tsx";
import { place } from "./router.ts";
import { Shell } from "./shell.tsx";

export function App() {
  const isReturning = place.value.screen === "oidc";
  return (
    <>
      {isReturning ? <OidcCallback /> : session.value ? <Shell /> : <Login />}
      <ConfirmHost />
      <Toasts />
    </>
  );
}
