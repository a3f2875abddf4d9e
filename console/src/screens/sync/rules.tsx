import { api, apiFull, type Schemas } from "../../api/client.ts";
import { confirmDelete, confirmed } from "../../components/confirm.tsx";
import { ListScreen } from "../../components/list-screen.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import type { Column } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { inParallel } from "../../lib/parallel.ts";
import { useResource } from "../../lib/resource.ts";
import { count, plural } from "../../lib/text.ts";
import { destinationPath } from "./addresses.ts";
import { type DestinationRef, MAX_CONCURRENT } from "./reads.ts";
import { bodyOf, RuleForm, WRITE_RULE } from "./rule-form.tsx";

type Rule = Schemas["SyncRule"];

const FRESH_MS = 5_000;

const STATUSES: Readonly<Record<Rule["status"], readonly [Tone, string]>> = {
  scanning: ["info", "Comparing"],
  active: ["ok", "Active"],
  paused: ["off", "Paused"],
  limit_exceeded: ["bad", "Too many match"],
  confirmation_required: ["warn", "To be confirmed"],
  error: ["bad", "Failing"],
  deleting: ["info", "Ending"],
};

async function readRules(ref: DestinationRef, signal: AbortSignal): Promise<Rule[]> {
  const path = { ...ref };
  const listed = await apiFull("LIST /v1/sys/sync/destinations/{type}/{name}/rules", {
    path,
    signal,
    accept: [404],
    quiet: true,
  });
  const names = listed.status === 404 ? [] : listed.body.data.keys;
  return inParallel(names, MAX_CONCURRENT, async (rule) => {
    const read = { path: { ...path, rule }, signal, quiet: true };
    return (await api("GET /v1/sys/sync/destinations/{type}/{name}/rules/{rule}", read)).data;
  });
}

/** The rules of a destination: their state, and what a person decides about them. */
export function Rules({
  destination,
  onChange,
}: {
  readonly destination: DestinationRef;
  readonly onChange: () => void;
}) {
  const { type, name } = destination;
  const rules = useResource(["rules", type, name], (signal) => readRules(destination, signal), { everyMs: FRESH_MS });
  const at = (rule: Rule) => ({ type, name, rule: rule.name });

  const needOf = (verb: "POST" | "DELETE", rule?: Rule) =>
    `${verb} ${destinationPath(destination)}/rules/${rule?.name ?? "*"}` as const;

  const pause = async (rule: Rule): Promise<void> => {
    await api(WRITE_RULE, { path: at(rule), body: { ...bodyOf(rule), paused: !rule.paused } }).then(
      () => toast(`${rule.name} is ${rule.paused ? "resumed" : "paused"}.`),
      (failure: Error) => toast(failure.message, "bad"),
    );
    rules.reload();
  };
  const confirmPlan = async (rule: Rule): Promise<void> => {
    const request = [
      "POST /v1/sys/sync/destinations/{type}/{name}/rules/{rule}/confirm",
      { path: at(rule), body: { plan_id: rule.plan_id ?? "" } },
    ] as const;
    const isDone = await confirmed(
      {
        title: `Confirm the removals of ${rule.name}`,
        text: `${plural(rule.progress.pending_removals, "secret")} no longer match. Exactly these removals are made.`,
        verb: "Confirm removals",
        isDangerous: true,
      },
      ...request,
    );
    if (isDone) rules.reload();
  };
  const remove = async (rule: Rule): Promise<void> => {
    const text = "Its associations end, unless another rule or a request has set them.";
    const op = "DELETE /v1/sys/sync/destinations/{type}/{name}/rules/{rule}";
    if (await confirmDelete("rule", rule.name, text, op, { path: at(rule) })) rules.reload();
  };

  const columns: readonly Column<Rule>[] = [
    { key: "name", label: "Name", render: (rule) => rule.name },
    { key: "mount", label: "Secrets engine", isMinor: true, render: (rule) => <code>{rule.mount}</code> },
    {
      key: "status",
      label: "Status",
      render: ({ status, problems }) => {
        const [tone, word] = STATUSES[status];
        return (
          <Status tone={tone} title={problems[0] ?? word}>
            {word}
          </Status>
        );
      },
    },
    {
      key: "progress",
      label: "Secrets",
      render: ({ progress }) => `${count(progress.applied)} of ${count(progress.matched)}`,
    },
    { key: "problem", label: "Problem", isMinor: true, render: ({ problems }) => problems[0] ?? "" },
  ];
  return (
    <ListScreen
      label="Rules"
      resource={rules}
      columns={columns}
      keyOf={(rule) => rule.name}
      menuOf={(rule, edit) => [
        ...(rule.plan_id === undefined
          ? []
          : [
              {
                label: "Confirm removals",
                icon: "check" as const,
                needs: `${needOf("POST", rule)}/confirm` as const,
                onSelect: () => void confirmPlan(rule),
              },
            ]),
        { ...edit, needs: needOf("POST", rule) },
        {
          label: rule.paused ? "Resume" : "Pause",
          icon: "sync",
          needs: needOf("POST", rule),
          onSelect: () => void pause(rule),
        },
        {
          label: "Delete",
          icon: "trash",
          isDangerous: true,
          needs: needOf("DELETE", rule),
          onSelect: () => void remove(rule),
        },
      ]}
      add="Add rule"
      addNeeds={needOf("POST")}
      form={(rule, ends) => (
        <RuleForm
          destinations={[destination]}
          rule={rule}
          {...ends}
          onDone={() => {
            ends.onDone();
            onChange();
          }}
        />
      )}
      none="No rules yet"
    >
      A rule syncs all secrets that match, today and later.
    </ListScreen>
  );
}
