import { useState } from "preact/hooks";
import { renewToken, revokeToken } from "../api/login.ts";
import { caller, endSession, idleMinutes, isKept } from "../api/session.ts";
import { Button } from "../components/button.tsx";
import { confirm } from "../components/confirm.tsx";
import { CopyButton } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { ErrorPanel } from "../components/error-panel.tsx";
import { SelectField } from "../components/field.tsx";
import { Icon } from "../components/icons.tsx";
import { Countdown } from "../components/moments.tsx";
import { Properties } from "../components/page.tsx";
import { toast } from "../components/toasts.tsx";
import { useAction } from "../lib/resource.ts";
import { type Theme, theme } from "./theme.ts";

/** The token's name and remaining time; opens the details. */
export function Account() {
  const [isOpen, setOpen] = useState(false);
  const found = caller.value;
  return (
    <>
      <button type="button" class="account-button" onClick={() => setOpen(true)} aria-haspopup="dialog">
        <Icon name="user" />
        <span class="unseen">Account:</span>
        <span class="account-name">{found?.name ?? "…"}</span>
        {found?.expires && (
          <span class="account-ends">
            <Countdown to={found.expires} />
          </span>
        )}
      </button>
      {isOpen && <AccountDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function AccountDialog({ onClose }: { readonly onClose: () => void }) {
  const found = caller.value;
  const renew = useAction(async () => {
    await renewToken();
    toast("The token was renewed.");
  });
  const logOut = (): void => {
    onClose();
    endSession("Logged out. The token stays valid until it ends.");
  };
  const revoke = (): void => {
    onClose();
    void confirm({
      title: "Revoke this token?",
      text: "The token, the tokens made with it and their leases end at once. This cannot be undone.",
      verb: "Revoke and log out",
      isDangerous: true,
      perform: revokeToken,
    });
  };
  const footer = (
    <>
      <Button icon="logout" onClick={logOut}>
        Log out
      </Button>
    </>
  );
  return (
    <Dialog title={found?.name ?? "Account"} onClose={onClose} footer={footer} shape="side">
      {found && (
        <Properties
          items={[
            [
              "Token ends",
              found.expires === null ? (
                "never"
              ) : (
                <>
                  in <Countdown to={found.expires} />
                </>
              ),
            ],
            ["Policies", found.policies.join(", ") || "none"],
            ["Namespace", found.namespace || "root"],
            ["Type", found.type],
            ["Uses left", found.uses > 0 ? found.uses : ""],
            [
              "Accessor",
              found.accessor && (
                <span class="with-copy">
                  <code>{found.accessor}</code>
                  <CopyButton text={found.accessor} label="the accessor" />
                </span>
              ),
            ],
            ["Kept in", isKept.value ? "this tab's storage" : "memory only"],
          ]}
        />
      )}
      {found?.isRenewable && (
        <Button icon="refresh" isBusy={renew.isBusy} onClick={() => void renew.run()}>
          Renew the token
        </Button>
      )}
      <Button kind="danger" onClick={revoke}>
        Revoke the token
      </Button>
      {renew.error !== null && <ErrorPanel error={renew.error} />}
      <h3>This browser</h3>
      <SelectField
        label="Appearance"
        value={theme.value}
        onChange={(chosen) => (theme.value = chosen as Theme)}
        options={[
          { value: "system", label: "As the system" },
          { value: "light", label: "Light" },
          { value: "dark", label: "Dark" },
        ]}
      />
      <SelectField
        label="Lock when idle"
        value={String(idleMinutes.value)}
        onChange={(chosen) => (idleMinutes.value = Number(chosen))}
        hint="The tab forgets the token then."
        options={[
          { value: "5", label: "After 5 minutes" },
          { value: "15", label: "After 15 minutes" },
          { value: "60", label: "After an hour" },
          { value: "0", label: "Never" },
        ]}
      />
    </Dialog>
  );
}
