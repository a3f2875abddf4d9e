/** Shares the values of a secret once, by a link that ends. */
import { useState } from "preact/hooks";
import { ApiError, api, type Operation, type Options, wireRequest } from "../../api/client.ts";
import { secretsNamespace } from "../../api/namespaces.ts";
import { Button } from "../../components/button.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { SelectField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction } from "../../lib/resource.ts";
import { timeText } from "../../lib/time.ts";
import { shareUrl } from "./share-link.ts";

const LIVES = [
  { value: "15m", label: "15 minutes" },
  { value: "1h", label: "1 hour" },
  { value: "24h", label: "1 day" },
  { value: "168h", label: "7 days" },
  { value: "720h", label: "30 days" },
];

interface WrapInfo {
  readonly token: string;
  readonly accessor: string;
  readonly ttl: number;
  readonly creation_time: string;
}

interface ShareProps<Op extends Operation> {
  readonly name: string;
  /** The version that is shown; none for the newest. */
  readonly version?: number | undefined;
  /** The read whose answer is wrapped. */
  readonly requestOf: (wrapTtl: string) => readonly [Op, Options<Op>];
  readonly onClose: () => void;
}

export function ShareDialog<Op extends Operation>({ name, version, requestOf, onClose }: ShareProps<Op>) {
  const [life, setLife] = useState("24h");
  const [made, setMade] = useState<WrapInfo | null>(null);
  const request = requestOf(life);
  const share = async (): Promise<void> => {
    const [op, options] = request;
    const answer = (await api(op, { ...options, sensitive: true })) as { readonly wrap_info?: WrapInfo | null };
    if (!answer.wrap_info) throw new ApiError(404, ["The secret has no values to share."], wireRequest(op, options));
    setMade(answer.wrap_info);
  };
  if (made) return <Made made={made} onClose={onClose} />;
  return (
    <FormDialog
      title={`Share ${name} once`}
      verb="Make the link"
      shape="box"
      onClose={onClose}
      perform={share}
      request={wireRequest(...request)}
    >
      <p>
        The link shows the values of {version === undefined ? "the newest version" : `version ${version}`} to the first
        person who opens it, without a log-in. The second one is told that it was opened before.
      </p>
      <SelectField label="The link ends after" value={life} onChange={setLife} options={LIVES} />
    </FormDialog>
  );
}

function Made({ made, onClose }: { readonly made: WrapInfo; readonly onClose: () => void }) {
  const ends = Date.parse(made.creation_time) + made.ttl * 1000;
  const url = shareUrl({ token: made.token, ends });
  const revoke = useAction(async () => {
    await api("POST /v1/auth/token/revoke-accessor", { body: { accessor: made.accessor } });
    toast("The link is revoked.");
    onClose();
  });
  return (
    <Dialog
      title="The link is made"
      onClose={onClose}
      footer={
        <>
          <Button kind="danger" isBusy={revoke.isBusy} onClick={() => void revoke.run()}>
            Revoke the link
          </Button>
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        </>
      }
    >
      <ShownOnce what="the link">
        <p>
          It opens once, until {timeText(ends)}
          {secretsNamespace.value && <> in the namespace {secretsNamespace.value}</>}. Whoever has it sees the values,
          so send it by a way that you trust.
        </p>
        <p class="with-copy">
          <code class="secrets-link">{url}</code>
          <CopyButton text={url} label="the link" />
        </p>
      </ShownOnce>
      <p class="muted small">
        To revoke it later, keep its accessor: <code>{made.accessor}</code>
      </p>
      {revoke.error !== null && <ErrorPanel error={revoke.error} />}
    </Dialog>
  );
}
