import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { caller } from "../../api/session.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox } from "../../components/field.tsx";
import { Masked } from "../../components/masked.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Properties } from "../../components/page.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { durationText } from "../../lib/time.ts";
import { Grants } from "./grants.tsx";
import { revokeLease } from "./lease-actions.ts";
import { readConfig, readEngines, readRole } from "./reads.ts";

const ISSUE = "GET /v1/cloud-b/creds/{name}";

interface Issued {
  readonly clientId: string;
  readonly clientSecret: string;
  readonly leaseId: string;
  /** ms since 1970. */
  readonly ends: number;
  readonly warnings: readonly string[];
  /** Empty when the configuration cannot be read. */
  readonly tenant: string;
}

interface Props {
  readonly mount: string;
  readonly role: string;
  readonly onClose: () => void;
}

const DEFAULT_TTL_S = 768 * 3600;

/** How long credentials of a role last, and what they may do; null for callers who may not read the role. */
async function readTerms(mount: string, name: string, signal: AbortSignal) {
  const role = await readRole(mount, name, signal).catch(() => null);
  if (!role) return null;
  const engine = (await readEngines(signal)).find(({ path }) => path === mount)?.mount;
  const text = (seconds: number): string => durationText(seconds * 1000);
  const ttl = role.ttl || engine?.config.default_lease_ttl || DEFAULT_TTL_S;
  const most = role.explicit_max_ttl || role.max_ttl || engine?.config.max_lease_ttl || DEFAULT_TTL_S;
  return { role, life: most > ttl ? `${text(ttl)}; with renewals ${text(most)} at most` : text(Math.min(ttl, most)) };
}

/** Issues credentials once: they are shown here and nowhere else. */
export function IssueDialog({ mount, role, onClose }: Props) {
  const [isVerified, setVerified] = useState(true);
  const [issued, setIssued] = useState<Issued | null>(null);
  const terms = useResource(["terms", mount, role], (signal) => readTerms(mount, role, signal));
  const options = { mount, path: { name: role }, query: isVerified ? { verify: true } : {}, sensitive: true };
  const issue = useAction(async () => {
    const started = Date.now();
    const answer = await api(ISSUE, options);
    const config = await readConfig(mount, new AbortController().signal).catch(() => null);
    setIssued({
      clientId: answer.data.client_id,
      clientSecret: answer.data.client_secret,
      leaseId: answer.lease_id,
      ends: started + answer.lease_duration * 1000,
      warnings: answer.warnings ?? [],
      tenant: config?.tenant_id ?? "",
    });
  });
  const revoke = useAction(async () => {
    if (issued) toast(await revokeLease(issued.leaseId));
    onClose();
  });
  return (
    <Dialog
      title={issued ? `Credentials of ${role}` : `Issue credentials of ${role}`}
      onClose={onClose}
      footer={
        issued ? (
          <>
            <Button kind="danger" onClick={() => void revoke.run()} isBusy={revoke.isBusy}>
              Revoke now
            </Button>
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" onClick={() => void issue.run()} isBusy={issue.isBusy} autofocus>
              Issue credentials
            </Button>
          </>
        )
      }
    >
      {issued ? (
        <ShownOnce what="the client secret">
          <Credentials issued={issued} />
        </ShownOnce>
      ) : (
        <div class="form">
          {terms.value && (
            <Properties
              items={[
                ["Lasts", terms.value.life],
                ["May do", <Grants key="grants" role={terms.value.role} />],
              ]}
            />
          )}
          <p>
            A principal is made at Azure with these rights, and deleted at the end.{" "}
            {caller.value?.expires ? (
              <>
                Your token ends in <Countdown to={caller.value.expires} />, and the credentials end with it at the
                latest.
              </>
            ) : (
              "They end earlier if your token is revoked."
            )}
          </p>
          <Checkbox
            label="Wait until they can log in"
            hint="Takes a little longer. Without it Azure may refuse them for the first seconds."
            checked={isVerified}
            onChange={setVerified}
          />
          {issue.isBusy && <p class="muted">The directory takes its time: up to a minute.</p>}
        </div>
      )}
      {issue.error !== null && <ErrorPanel title="No credentials were issued" error={issue.error} />}
      {revoke.error !== null && <ErrorPanel error={revoke.error} />}
      {!issued && <AsCommand request={wireRequest(ISSUE, options)} />}
    </Dialog>
  );
}

function Credentials({ issued }: { readonly issued: Issued }) {
  const { clientId, clientSecret, leaseId, ends, warnings, tenant } = issued;
  const lines = [
    `AZURE_CLIENT_ID=${clientId}`,
    `AZURE_CLIENT_SECRET=${clientSecret}`,
    ...(tenant ? [`AZURE_TENANT_ID=${tenant}`] : []),
  ];
  return (
    <div class="form">
      <p class="notice">Copy the secret now: it is not shown again.</p>
      {warnings.map((warning) => (
        <p key={warning} class="notice notice-warn">
          {warning}
        </p>
      ))}
      <Properties
        items={[
          [
            "Client ID",
            <span class="with-copy" key="id">
              <code>{clientId}</code>
              <CopyButton text={clientId} label="the client ID" />
            </span>,
          ],
          ["Client secret", <Masked key="secret" value={clientSecret} label="the client secret" />],
          ["Ends in", <Countdown key="ends" to={ends} />],
          [
            "Lease",
            <span class="with-copy" key="lease">
              <code>{leaseId}</code>
              <CopyButton text={leaseId} label="the lease ID" />
            </span>,
          ],
          [
            "For a shell",
            <span class="with-copy" key="lines">
              {lines.map((line) => line.slice(0, line.indexOf("="))).join(", ")}
              <CopyButton text={lines.join("\n")} label="all as environment variables" />
            </span>,
          ],
        ]}
      />
    </div>
  );
}
