import { useState } from "preact/hooks";
import { api, isDenied, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { issuerProblem, readPublished } from "./issuer-reads.ts";

const CONFIGURE = "POST /v1/identity/oidc/config";
const ROTATE = "POST /v1/identity/oidc/key/default/rotate";

/** Empty while none is set; null for callers who may not read it. */
async function readIssuer(signal: AbortSignal): Promise<string | null> {
  try {
    return (await api("GET /v1/identity/oidc/config", { signal, quiet: true })).data.issuer;
  } catch (failure) {
    if (isDenied(failure)) return null;
    throw failure;
  }
}

/** The service as an OpenID Connect issuer: with its tokens engines log in without a secret. */
export function Issuer() {
  const published = useResource(["published"], readPublished);
  const configured = useResource(["issuer"], readIssuer);
  return (
    <Loaded resource={published} label="The identity issuer">
      {({ discovery, keys }) => {
        const problem = issuerProblem(discovery.issuer);
        return (
          <div class="credentials-columns">
            <Card title="What providers read">
              <div class="stack">
                <p class="muted">
                  The service signs identity tokens. A provider that trusts this issuer accepts them in place of a
                  client secret. Both documents need no token.
                </p>
                <Properties
                  items={[
                    [
                      "State",
                      problem ? (
                        <>
                          <Status tone="warn">Local use only</Status> <div class="muted small">{problem}</div>
                        </>
                      ) : (
                        <Status tone="ok">Public</Status>
                      ),
                    ],
                    [
                      "Issuer",
                      <span class="with-copy" key="issuer">
                        <code>{discovery.issuer}</code>
                        <CopyButton text={discovery.issuer} label="the issuer" />
                      </span>,
                    ],
                    ["Keys", <code key="keys">{discovery.jwks_uri}</code>],
                    ["Signing", discovery.id_token_signing_alg_values_supported.join(", ")],
                  ]}
                />
              </div>
            </Card>
            <div class="stack">
              {configured.value !== undefined && configured.value !== null && (
                <Configure
                  issuer={configured.value}
                  onChanged={() => {
                    configured.reload();
                    published.reload();
                  }}
                />
              )}
              <Card title="Signing keys">
                <div class="stack">
                  <ul class="credentials-keys">
                    {keys.map(({ kid, alg }) => (
                      <li key={kid}>
                        <code>{kid}</code> <span class="muted">{alg}</span>
                      </li>
                    ))}
                  </ul>
                  <p class="muted">A new key begins to sign every 24 hours; it is published a day before.</p>
                  <RotateKey onDone={published.reload} />
                </div>
              </Card>
            </div>
          </div>
        );
      }}
    </Loaded>
  );
}

function Configure({ issuer, onChanged }: { readonly issuer: string; readonly onChanged: () => void }) {
  const [entered, setEntered] = useState(issuer);
  const body = { issuer: entered };
  const save = useAction(async () => {
    const answer = await api(CONFIGURE, { body });
    toast(answer?.warnings?.join(" ") ?? "The issuer is set.", answer?.warnings ? "warn" : "ok");
    onChanged();
  });
  return (
    <Card title="Address">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <TextField
          label="Issuer"
          value={entered}
          onChange={setEntered}
          mono
          placeholder="https://vault.example"
          hint="The public origin of this service. Empty: the setting PUBLIC_URL, else the address of the request."
        />
        {save.error !== null && <ErrorPanel error={save.error} />}
        <div class="row">
          <Button type="submit" isBusy={save.isBusy} disabled={entered === issuer} needs="POST identity/oidc/config">
            Set issuer
          </Button>
        </div>
        <AsCommand request={wireRequest(CONFIGURE, { body })} />
      </form>
    </Card>
  );
}

function RotateKey({ onDone }: { readonly onDone: () => void }) {
  const rotate = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: "Rotate the signing key",
        text: (
          <p>
            The next key signs from now on. The one before stays published for 24 hours, so tokens that are out stay
            valid.
          </p>
        ),
        verb: "Rotate key",
      },
      ROTATE,
      { body: {} },
    );
    if (done) onDone();
  };
  return (
    <div class="row">
      <Button icon="refresh" needs="POST identity/oidc/key/default/rotate" onClick={() => void rotate()}>
        Rotate key
      </Button>
    </div>
  );
}
