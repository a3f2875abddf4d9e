/** Placeholders of a part of a screen: nothing yet, being read, or failed. */
import type { ComponentChildren } from "preact";
import { caller } from "../api/session.ts";
import type { Resource } from "../lib/resource.ts";
import { ErrorPanel } from "./error-panel.tsx";

/** Nothing is there: says what it would be and what to do first. */
export function Empty({
  title,
  children,
  actions,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly actions?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
      {actions && <div class="empty-actions">{actions}</div>}
    </div>
  );
}

/** Title of an empty list that the service narrows to the rights of the caller, such as `No job yet`. */
export const noneOf = (what: string): string =>
  caller.value?.isRoot ? `No ${what} yet` : `No ${what} that your token may see`;

export function Loading({ label = "Loading" }: { readonly label?: string }) {
  return (
    <div class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {label} …
    </div>
  );
}

/** The content of a resource once it is there. A failure of a later read is shown above the last value. */
export function Loaded<Value>({
  resource,
  children,
  label,
}: {
  readonly resource: Resource<Value>;
  readonly children: (value: Value) => ComponentChildren;
  readonly label?: string;
}) {
  const { value, error, reload } = resource;
  return (
    <>
      {error !== null && <ErrorPanel error={error} onRetry={reload} what={label} />}
      {value === undefined ? error === null && <Loading {...(label ? { label } : {})} /> : children(value)}
    </>
  );
}

/** Progress of long work: what is done and what is left. */
export function Progress({
  done,
  total,
  label,
  textOf = String,
}: {
  readonly done: number;
  readonly total: number;
  readonly label: string;
  readonly textOf?: (amount: number) => string;
}) {
  return (
    <div class="progress">
      <progress max={Math.max(total, 1)} value={done} aria-label={label} />
      <span class="progress-text">
        {label}: {textOf(done)} of {textOf(total)} done, {textOf(Math.max(0, total - done))} left
      </span>
    </div>
  );
}
