import { Empty } from "../../components/states.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import type { PlannedObject } from "./reads.ts";

const ACTIONS: Readonly<Record<PlannedObject["action"], readonly [Tone, string]>> = {
  create: ["ok", "Create"],
  update: ["info", "Update"],
  delete: ["warn", "Delete"],
  retain: ["off", "Leave there"],
  refuse: ["bad", "Refuse"],
};

const OUTSIDE: Readonly<Record<NonNullable<PlannedObject["outside"]>, string>> = {
  absent: "nothing",
  ours: "our object",
  foreign: "another user's object",
  present: "an object",
  unreadable: "not readable",
};

const COLUMNS: readonly Column<PlannedObject>[] = [
  {
    key: "action",
    label: "Action",
    width: "8rem",
    render: ({ action }) => <Status tone={ACTIONS[action][0]}>{ACTIONS[action][1]}</Status>,
  },
  {
    key: "name",
    label: "Name at the provider",
    render: ({ external_name }) => <code title={external_name}>{external_name}</code>,
  },
  {
    key: "outside",
    label: "There now",
    width: "11rem",
    isMinor: true,
    render: ({ outside }) => (outside ? OUTSIDE[outside] : "–"),
  },
];

/** What a request would do at the provider, before it does it. */
export function Plan({ planned }: { readonly planned: readonly PlannedObject[] }) {
  const reasons = [...new Set(planned.flatMap(({ reason }) => (reason ? [reason] : [])))];
  return (
    <div class="stack">
      <DataTable
        label="Planned changes"
        rows={planned}
        columns={COLUMNS}
        keyOf={({ association, sub_key, external_name, action }) =>
          `${association} ${sub_key ?? ""} ${external_name} ${action}`
        }
        maxHeight="320px"
        empty={<Empty title="Nothing would change at the provider" />}
      />
      {reasons.map((reason) => (
        <p key={reason} class="notice notice-warn">
          {reason}
        </p>
      ))}
    </div>
  );
}

/** Scrolls to a preview when it appears: the form above may be long. */
export const intoView = (element: HTMLElement | null): void => element?.scrollIntoView({ block: "nearest" });
