/** First steps in a new deployment. The list goes away when all are done, or when it is closed. */
import { useState } from "preact/hooks";
import { api, isMissing } from "../../api/client.ts";
import { caller } from "../../api/session.ts";
import { href } from "../../app/router.ts";
import { IconButton } from "../../components/button.tsx";
import { Icon } from "../../components/icons.tsx";
import { Card } from "../../components/page.tsx";
import { useResource } from "../../lib/resource.ts";

interface Step {
  readonly label: string;
  readonly href: string;
  readonly isDone: boolean | null;
}

const KEY = "sallyport.checklist-closed";

/** Null without the right to read it: the step may be done. */
const succeeds = async (read: Promise<boolean | null>): Promise<boolean | null> =>
  read.catch((failure: unknown) => (isMissing(failure) ? false : null));

/** Of a list that the service narrows to the rights of the caller: nothing in it may mean no right. */
const seen = (isThere: boolean): boolean | null => isThere || (caller.value?.isRoot ? false : null);

async function readSteps(signal: AbortSignal): Promise<Step[]> {
  const shared = { signal, quiet: true };
  const [hasSecret, hasDestination, hasAssociation, hasNode, hasPolicy] = await Promise.all([
    succeeds(
      api("GET /v1/sys/internal/ui/mounts", shared).then(({ data }) =>
        seen(Object.values(data.secret).some(({ type }) => type === "kv")),
      ),
    ),
    succeeds(api("LIST /v1/sys/sync/destinations", shared).then(({ data }) => data.keys.length > 0)),
    succeeds(api("LIST /v1/sys/sync/associations", shared).then(({ data }) => data.keys.length > 0)),
    succeeds(api("GET /v1/nodes", { ...shared, query: { per_page: 1 } }).then((nodes) => nodes.length > 0)),
    succeeds(
      api("LIST /v1/sys/policies/acl", shared).then(({ data }) =>
        data.keys.some((name) => !["default", "root"].includes(name)),
      ),
    ),
  ]);
  return [
    { label: "Keep a secret", href: href("secrets"), isDone: hasSecret },
    { label: "Create a destination", href: href("sync"), isDone: hasDestination },
    { label: "Sync a secret to it", href: href("sync"), isDone: hasAssociation },
    { label: "Join a node", href: href("nodes"), isDone: hasNode },
    { label: "Write a policy", href: href("access"), isDone: hasPolicy },
    {
      label: "Work with a token of your own instead of the root token",
      href: href("access", [], { tab: "tokens" }),
      isDone: caller.value?.isRoot === false,
    },
  ];
}

export function Checklist() {
  const [isClosed, setClosed] = useState(localStorage.getItem(KEY) !== null);
  const steps = useResource(["steps", caller.value?.accessor], readSteps, { skip: isClosed });
  const all = steps.value?.filter(({ isDone }) => isDone !== null);
  if (isClosed || !all || all.every(({ isDone }) => isDone)) return null;
  const close = (): void => {
    localStorage.setItem(KEY, "1");
    setClosed(true);
  };
  return (
    <Card
      title={`First steps: ${all.filter(({ isDone }) => isDone).length} of ${all.length} done`}
      actions={<IconButton icon="close" label="Close the first steps" onClick={close} />}
    >
      <ol class="overview-steps">
        {all.map(({ label, href: address, isDone }) => (
          <li key={label} class={isDone ? "overview-done" : ""}>
            <Icon name={isDone ? "check" : "right"} />
            {isDone ? (
              <span>
                {label}
                <span class="muted">, done</span>
              </span>
            ) : (
              <a href={address}>{label}</a>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}
