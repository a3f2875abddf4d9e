import { Status, type Tone } from "../../components/status.tsx";
import { count } from "../../lib/text.ts";
import type { PlannedObject } from "./reads.ts";

const ACTIONS: Readonly<Record<PlannedObject["action"], readonly [Tone, string]>> = {
  create: ["ok", "Create"],
  update: ["info", "Update"],
  delete: ["warn", "Delete"],
  retain: ["off", "Leave there"],
  hold: ["off", "Held"],
  refuse: ["bad", "Refuse"],
};

const OUTSIDE: Readonly<Record<NonNullable<PlannedObject["outside"]>, string>> = {
  absent: "nothing",
  ours: "our object",
  foreign: "another user's object",
  present: "an object",
  unreadable: "not readable",
};

const MAX_ROWS = 200;

/** Preview of a request's calls to the provider. */
export function Plan({ planned }: { readonly planned: readonly PlannedObject[] }) {
  const reasons = [...new Set(planned.flatMap(({ reason }) => (reason ? [reason] : [])))];
  return (
    <div class="stack">
      {planned.length === 0 && <p>Nothing would change at the provider.</p>}
      <ul class="sync-plan">
        {planned.slice(0, MAX_ROWS).map(({ association, sub_key, external_name, action, outside }) => (
          <li key={`${association} ${sub_key ?? ""} ${external_name} ${action}`}>
            <Status tone={ACTIONS[action][0]}>{ACTIONS[action][1]}</Status>
            <code>{external_name}</code>
            {outside && <span class="muted small">there now: {OUTSIDE[outside]}</span>}
          </li>
        ))}
      </ul>
      {planned.length > MAX_ROWS && <p class="muted">{count(planned.length - MAX_ROWS)} more</p>}
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
