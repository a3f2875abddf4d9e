import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { lackingOf } from "../../api/rights.ts";
import { caller } from "../../api/session.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, SelectField } from "../../components/field.tsx";
import { Masked } from "../../components/masked.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Properties } from "../../components/page.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import type { FormValue } from "../../lib/settings.ts";
import { durationText } from "../../lib/time.ts";
import { issuePaths, type RoleAddress } from "./engine-types.ts";
import { Grants } from "./grants.tsx";
import { revokeLease } from "./lease-actions.ts";
import { type Engine, issueRequest, operations, readConfig, readRole } from "./reads.ts";

interface Issued {
  readonly data: FormValue;
  /** Empty for credentials without a lease. */
  readonly leaseId: string;
  /** ms since 1970; null when it is not known. */
  readonly ends: number | null;
  readonly warnings: readonly string[];
}

interface Props {
  readonly engine: Engine;
  readonly role: RoleAddress;
  readonly onClose: () => void;
}

const DEFAULT_TTL_S = 768 * 3600;

/** How long credentials of a role last, and what they may do; null for callers who may not read the role. */
async function readTerms({ engine, role: address }: Props, signal: AbortSignal) {
  const role = await readRole(engine, address, signal).catch(() => null);
  if (!role) return null;
  const { mount } = engine;
  const text = (seconds: number): string => durationText(seconds * 1000);
  const ttl = role.ttl || mount?.config.default_lease_ttl || DEFAULT_TTL_S;
  const most = role.explicit_max_ttl || role.max_ttl || mount?.config.max_lease_ttl || DEFAULT_TTL_S;
  // Other types have lives of their own, which the provider limits.
  if (role.ttl === undefined) return { role, life: null };
  return { role, life: most > ttl ? `${text(ttl)}; with renewals ${text(most)} at most` : text(Math.min(ttl, most)) };
}

/** Issues credentials once: they are shown here and nowhere else. */
export function IssueDialog(props: Props) {
  const { engine, role, onClose } = props;
  const { path: mount, type } = engine;
  const [isVerified, setVerified] = useState(true);
  const [issued, setIssued] = useState<Issued | null>(null);
  const terms = useResource(["terms", mount, role.stored], (signal) => readTerms(props, signal));
  const paths = issuePaths(role, terms.value?.role ?? null);
  const usable = paths.filter((path) => lackingOf(issueRequest(engine, role, path)) === null);
  const [chosen, setChosen] = useState("");
  const path = paths.includes(chosen) ? chosen : (usable[0] ?? paths[0] ?? "");
  const operation = operations.issue(type, path);
  const options = { mount, path: { name: role.name }, query: isVerified ? { verify: true } : {}, sensitive: true };
  const issue = useAction(async () => {
    const started = Date.now();
    const answer = await api(operation, options);
    const data: FormValue = answer.data;
    const own = Object.keys(type.answer).find((name) => type.answer[name]?.life && typeof data[name] === "number");
    const seconds = own ? Number(data[own]) : answer.lease_duration;
    setIssued({
      data,
      leaseId: answer.lease_id,
      ends: seconds > 0 ? Math.min(started + seconds * 1000, caller.value?.expires || Infinity) : null,
      warnings: answer.warnings ?? [],
    });
  });
  const revoke = useAction(async () => {
    if (issued) toast(await revokeLease(issued.leaseId));
    onClose();
  });
  return (
    <Dialog
      title={issued ? `Credentials of ${role.name}` : `Issue credentials of ${role.name}`}
      onClose={onClose}
      footer={
        issued ? (
          <>
            {issued.leaseId && (
              <Button
                kind="danger"
                needs="POST sys/leases/revoke"
                onClick={() => void revoke.run()}
                isBusy={revoke.isBusy}
              >
                Revoke now
              </Button>
            )}
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose} disabled={issue.isBusy}>
              Cancel
            </Button>
            <Button
              kind="primary"
              onClick={() => void issue.run()}
              isBusy={issue.isBusy}
              // The path depends on the role.
              disabled={role.kind.issueBy !== undefined && terms.value === undefined}
              autofocus
            >
              Issue credentials
            </Button>
          </>
        )
      }
    >
      {issued ? (
        <ShownOnce what="the credentials">
          <Credentials engine={engine} issued={issued} />
        </ShownOnce>
      ) : (
        <div class="form">
          {terms.value && (
            <Properties
              items={[
                ["Lasts", terms.value.life],
                ...("cloud_roles" in terms.value.role
                  ? [["May do", <Grants key="grants" role={terms.value.role} />] as const]
                  : []),
              ]}
            />
          )}
          {role.kind.issueBy && terms.value === null && usable.length > 1 && (
            <SelectField
              label="Path"
              hint="Your token may not read the role: choose the path that it has."
              value={path}
              onChange={setChosen}
              options={usable.map((each) => ({
                value: each,
                label: `${mount}${each.replace("{name}", role.name)}`,
              }))}
            />
          )}
          <p>They are made at {type.label}, and end with their lease, or with your token if that ends first.</p>
          <Checkbox
            label="Wait until they can log in"
            hint="Takes a little longer. Without it the provider may refuse them for the first seconds."
            checked={isVerified}
            onChange={setVerified}
          />
          {issue.isBusy && (
            <ShownOnce what="the credentials">
              <p class="muted">The provider takes its time: up to a minute.</p>
            </ShownOnce>
          )}
        </div>
      )}
      {issue.error !== null && <ErrorPanel title="No credentials were issued" error={issue.error} />}
      {revoke.error !== null && <ErrorPanel error={revoke.error} />}
      {!issued && <AsCommand request={wireRequest(operation, options)} />}
    </Dialog>
  );
}

/** Members of the answer that the description names; those with secrets are hidden. */
function Credentials({ engine, issued }: { readonly engine: Engine; readonly issued: Issued }) {
  const { data, leaseId, ends, warnings } = issued;
  const config = useResource(["config of", engine.path], (signal) => readConfig(engine, signal, undefined, true));
  const members = Object.entries(engine.type.answer).filter(([name, { life }]) => !life && data[name]);
  const line = (variable: string | undefined, value: unknown): string[] =>
    variable && value ? [`${variable}=${String(value)}`] : [];
  const lines = [
    ...members.flatMap(([name, { variable }]) => line(variable, data[name])),
    ...Object.entries(engine.type.config).flatMap(([name, { variable }]) => line(variable, config.value?.[name])),
  ];
  const copied = (text: string, label: string): ComponentChildren => (
    <span class="with-copy" key={label}>
      <code>{text}</code>
      <CopyButton text={text} label={label} />
    </span>
  );
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
          ...members.map(([name, { label, secret }]): [string, ComponentChildren] => {
            const [text, called] = [
              String(data[name]),
              `the ${/^[A-Z]{2}/.test(label) ? label : label.charAt(0).toLowerCase() + label.slice(1)}`,
            ];
            return [label, secret ? <Masked key={name} value={text} label={called} /> : copied(text, called)];
          }),
          ["Ends in", ends !== null && <Countdown key="ends" to={ends} />],
          ["Lease", leaseId ? copied(leaseId, "the lease ID") : "none: they end by themselves"],
          [
            "For a shell",
            lines.length > 0 && (
              <span class="with-copy" key="lines">
                {lines.map((line) => line.slice(0, line.indexOf("="))).join(", ")}
                <CopyButton text={lines.join("\n")} label="all as environment variables" />
              </span>
            ),
          ],
        ]}
      />
    </div>
  );
}
