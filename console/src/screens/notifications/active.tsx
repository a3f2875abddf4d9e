import { api, wireRequest } from "../../api/client.ts";
import { href } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Ago } from "../../components/moments.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";
import { CONDITIONS, SEVERITY } from "./words.ts";

const READ = "GET /v1/sys/notifications/active";
const ROOT = { namespace: "" };
const FRESH_MS = 10_000;

const STATES = { pending: "Not sent yet", firing: "Active", ended: "Over" } as const;

/** Subjects for which the condition of a rule holds. */
export function Active() {
  const active = useResource(
    ["active-notifications"],
    async (signal) => (await api(READ, { ...ROOT, signal, quiet: true })).data,
    { everyMs: FRESH_MS },
  );
  return (
    <>
      <Loaded resource={active} label="Active notifications">
        {({ active: rows, error }) => (
          <>
            {error !== null && <p class="notice">Not up to date: {error}.</p>}
            <DataTable
              label="Active notifications"
              rows={rows}
              keyOf={({ rule, subject }) => `${rule} ${subject}`}
              columns={[
                {
                  key: "state",
                  label: "State",
                  width: "9rem",
                  render: ({ state, severity }) => (
                    <Status tone={state === "firing" ? SEVERITY[severity] : "wait"}>{STATES[state]}</Status>
                  ),
                },
                { key: "what", label: "Condition", render: ({ condition }) => CONDITIONS[condition] },
                { key: "subject", label: "Subject", render: ({ subject }) => <span class="mono">{subject}</span> },
                { key: "detail", label: "Details", isMinor: true, render: ({ detail }) => detail },
                {
                  key: "since",
                  label: "Since",
                  width: "8rem",
                  isMinor: true,
                  render: ({ since }) => <Ago at={since} />,
                },
                { key: "rule", label: "Rule", width: "9rem", isMinor: true, render: ({ rule }) => rule },
              ]}
              empty={
                <div class="card">
                  <Empty
                    title="No active notification"
                    actions={<a href={href("notifications", [], { tab: "rules" })}>Rules</a>}
                  >
                    The service checks the conditions of all rules every minute. To get messages, add a channel and a
                    rule.
                  </Empty>
                </div>
              }
            />
          </>
        )}
      </Loaded>
      <AsCommand request={wireRequest(READ, ROOT)} />
    </>
  );
}
