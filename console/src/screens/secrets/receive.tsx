/**
 * The page of a shared link: `/ui/open#TOKEN`. It needs no log-in, opens nothing before a click (a preview of a
 * messenger opens nothing), and forgets the link's token once it is read from the address.
 */
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { ApiError, api } from "../../api/client.ts";
import { holdPlace, place } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Icon } from "../../components/icons.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Properties } from "../../components/page.tsx";
import { Loading } from "../../components/states.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { timeText } from "../../lib/time.ts";
import type { SecretData } from "./reads.ts";
import { parseFragment, type ShareLink } from "./share-link.ts";
import { ValueTable } from "./value-table.tsx";

/** Requests of the receiver send the link's token in their body only, and no token of a session. */
const quietly = () =>
  ({ namespace: place.value.query.get("ns") ?? "", anonymous: true, sensitive: true, quiet: true }) as const;

/** Takes the token out of the address, so that neither history nor a copied address holds it. */
function takeLink(): ShareLink | null {
  const link = parseFragment(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return link;
}

export default function Receive() {
  const [link, setLink] = useState(takeLink);
  useEffect(() => {
    document.title = "A shared secret · Sallyport";
    // The same page gets another link by its fragment alone.
    const change = (): void => {
      if (location.hash) setLink(takeLink());
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return (
    <div class="login-box secrets-receive">
      <div class="login-mark">
        <Icon name="mark" size={28} />
        <h1>A shared secret</h1>
      </div>
      {link ? (
        <Opening key={link.token} link={link} />
      ) : (
        <p>This address has no link any more. Open the link that was sent to you again; it shows its secret once.</p>
      )}
    </div>
  );
}

/** The wrapped answer: values of a key/value engine, of version 2 beside metadata. */
function valuesOf(data: Readonly<Record<string, unknown>>): SecretData {
  const { data: inner, metadata } = data;
  const isVersioned = typeof inner === "object" && inner !== null && typeof metadata === "object";
  return isVersioned ? (inner as SecretData) : data;
}

const isSpent = (error: unknown): boolean => error instanceof ApiError && error.status === 400;

function Opening({ link }: { readonly link: ShareLink }) {
  const { token } = link;
  const about = useResource(["link"], async (signal) => {
    const { data } = await api("POST /v1/sys/wrapping/lookup", { ...quietly(), body: { token }, signal });
    return { path: data.creation_path, ends: Date.parse(data.creation_time) + data.creation_ttl * 1000 };
  });
  const [values, setValues] = useState<SecretData | null>(null);
  /** No answer came to an attempt to open it, which may have used the link up. */
  const [isLost, setLost] = useState(false);
  const open = useAction(async () => {
    const { data } = await api("POST /v1/sys/wrapping/unwrap", { ...quietly(), body: { token } }).catch((failure) => {
      if (failure instanceof ApiError && failure.isOffline) setLost(true);
      throw failure;
    });
    setValues(valuesOf(data as Readonly<Record<string, unknown>>));
  });
  if (values) return <Opened values={values} />;
  if (isSpent(about.error) || isSpent(open.error))
    return <Spent ends={link.ends ?? about.value?.ends ?? null} isLost={isLost} />;
  if (about.error !== null) return <ErrorPanel error={about.error} onRetry={about.reload} />;
  if (!about.value) return <Loading label="Looking at the link" />;
  return (
    <>
      <p>It can be opened once. Open it where other people cannot see the screen.</p>
      <Properties
        items={[
          ["Secret", <span class="mono">{about.value.path}</span>],
          ["The link ends in", <Countdown to={about.value.ends} />],
        ]}
      />
      {open.error !== null && <ErrorPanel error={open.error} />}
      <Button kind="primary" isBusy={open.isBusy} onClick={() => void open.run()}>
        Open the secret
      </Button>
    </>
  );
}

function Opened({ values }: { readonly values: SecretData }) {
  // The browser asks before it leaves the page: nothing shows the values again.
  useLayoutEffect(() => holdPlace(() => undefined), []);
  return (
    <>
      <p class="notice">The link is used up. Keep the values before you close this page: nothing shows them again.</p>
      <ValueTable data={values} />
    </>
  );
}

function Spent({ ends, isLost }: { readonly ends: number | null; readonly isLost: boolean }) {
  if (isLost)
    return (
      <div role="alert">
        <p>
          <strong>The link is used up, and no answer came.</strong>
        </p>
        <p>The connection broke while this page opened it. Ask the sender for a new link.</p>
      </div>
    );
  if (ends !== null && ends <= Date.now())
    return (
      <div role="alert">
        <p>
          <strong>The link has ended</strong>, on {timeText(ends)}.
        </p>
        <p>
          The link can no longer be opened. The audit log shows if it was opened before its end. Ask for a new link.
        </p>
      </div>
    );
  return (
    <div role="alert">
      <p>
        <strong>The link was opened before, or was revoked.</strong>
        {ends === null && " Or it has ended."}
      </p>
      <p>
        Unless that was you, tell the sender at once: another person may have the secret. It should be changed, and sent
        again.
      </p>
    </div>
  );
}
