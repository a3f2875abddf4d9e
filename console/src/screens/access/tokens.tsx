import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { href, useAsked } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Choices, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { Masked } from "../../components/masked.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Properties, Toolbar } from "../../components/page.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";

export function Tokens() {
  const accessors = useResource(
    ["accessors"],
    async (signal) => (await api("LIST /v1/auth/token/accessors", { signal })).data.keys,
  );
  const cache = useMemo(() => new TokenCache(), [accessors.value]);
  const [opened, setOpened] = useState<string | null>(null);
  useAsked("accessor", setOpened);
  const [creates, setCreates] = useState(false);
  return (
    <>
      <Toolbar>
        <Button icon="plus" kind="primary" needs="POST auth/token/create" onClick={() => setCreates(true)}>
          Create token
        </Button>
        <p class="muted">An accessor names a token, and cannot be used as one.</p>
      </Toolbar>
      <Loaded resource={accessors} label="Tokens">
        {(rows) => (
          <DataTable
            label="Tokens"
            rows={rows}
            keyOf={(accessor) => accessor}
            onOpen={setOpened}
            columns={[
              {
                key: "name",
                label: "Name",
                render: (accessor) => <TokenField of={accessor} cache={cache} part={(token) => token.display_name} />,
              },
              {
                key: "policies",
                label: "Policies",
                isMinor: true,
                render: (accessor) => (
                  <TokenField of={accessor} cache={cache} part={({ policies }) => policies.join(", ")} />
                ),
              },
              {
                key: "ends",
                label: "Ends in",
                width: "8rem",
                render: (accessor) => (
                  <TokenField
                    of={accessor}
                    cache={cache}
                    part={({ expire_time }) => <Countdown to={expire_time} none="never" />}
                  />
                ),
              },
              {
                key: "accessor",
                label: "Accessor",
                width: "17rem",
                isMinor: true,
                render: (accessor) => <span class="mono">{accessor}</span>,
              },
            ]}
            empty={
              <div class="card">
                <Empty title="No token in this namespace" />
              </div>
            }
          />
        )}
      </Loaded>
      {opened !== null && (
        <TokenDialog
          accessor={opened}
          onClose={() => setOpened(null)}
          onRevoked={() => {
            setOpened(null);
            accessors.reload();
          }}
        />
      )}
      {creates && (
        <CreateDialog
          onClose={() => {
            setCreates(false);
            accessors.reload();
          }}
        />
      )}
    </>
  );
}

type Token = Schemas["Token"];

/** Cache of the tokens whose rows were visible. */
class TokenCache {
  readonly #read = new Map<string, Promise<Token | null>>();

  /** Null for a token that has ended, and for callers that may not look it up. */
  of(accessor: string): Promise<Token | null> {
    let found = this.#read.get(accessor);
    if (!found) {
      found = api("POST /v1/auth/token/lookup-accessor", { body: { accessor }, quiet: true }).then(
        ({ data }) => data,
        () => null,
      );
      this.#read.set(accessor, found);
    }
    return found;
  }
}

/** One fact of a token, read when its row comes into sight. */
function TokenField({
  of,
  cache,
  part,
}: {
  readonly of: string;
  readonly cache: TokenCache;
  readonly part: (token: Token) => ComponentChildren;
}) {
  const [token, setToken] = useState<Token | null | undefined>();
  useEffect(() => {
    let isWanted = true;
    void cache.of(of).then((found) => isWanted && setToken(found));
    return () => {
      isWanted = false;
    };
  }, [of, cache]);
  return <span class={token ? "" : "muted"}>{token ? part(token) : token === null ? "unknown" : "…"}</span>;
}

interface TokenProps {
  readonly accessor: string;
  readonly onClose: () => void;
  readonly onRevoked: () => void;
}

function TokenDialog({ accessor, onClose, onRevoked }: TokenProps) {
  const body = { accessor };
  const token = useResource(
    ["token", accessor],
    async (signal) => (await api("POST /v1/auth/token/lookup-accessor", { body, signal })).data,
  );
  const revoke = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: "Revoke the token",
        text: "The token, its children, and the leases that they hold end at once.",
        verb: "Revoke the token",
        isDangerous: true,
      },
      "POST /v1/auth/token/revoke-accessor",
      { body },
    );
    if (!done) return;
    toast("The token is revoked.");
    onRevoked();
  };
  return (
    <Dialog
      title="Token"
      shape="side"
      onClose={onClose}
      footer={
        <Button kind="danger" icon="trash" needs="POST auth/token/revoke-accessor" onClick={() => void revoke()}>
          Revoke
        </Button>
      }
    >
      <Loaded resource={token} label="The token">
        {(shown) => <TokenProperties token={shown} />}
      </Loaded>
      <p>
        <Check accessor={accessor} /> <a href={href("audit", [], { q: accessor })}>What has it done?</a>
      </p>
      <AsCommand request={wireRequest("POST /v1/auth/token/lookup-accessor", { body })} />
    </Dialog>
  );
}

const Check = ({ accessor }: { readonly accessor: string }) => (
  <a href={href("access", [], { tab: "check", accessor })}>What may it do?</a>
);

const TokenProperties = ({ token }: { readonly token: Schemas["Token"] }) => (
  <Properties
    items={[
      ["Name", token.display_name],
      ["Policies", token.policies.join(", ") || <span class="muted">none</span>],
      ["Of groups and entity", (token.identity_policies ?? []).join(", ")],
      ["From", token.path],
      ["Ends", <Countdown to={token.expire_time} none="never" />],
      ["Can be renewed", token.renewable ? "yes" : "no"],
      ["Uses left", token.num_uses > 0 ? token.num_uses : null],
      [
        "Metadata",
        Object.entries(token.meta ?? {})
          .map(([name, value]) => `${name}=${value}`)
          .join(", "),
      ],
      ["Accessor", <span class="mono">{token.accessor}</span>],
    ]}
  />
);

const listOf = (text: string): string[] =>
  text
    .split(/[\s,]+/)
    .map((name) => name.trim())
    .filter(Boolean);

/** Policies that are shown as a checkbox each. */
const MAX_CHOICES = 30;

/** Creates a token, and shows it once. */
function CreateDialog({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState("");
  const [policies, setPolicies] = useState("");
  const [ttl, setTtl] = useState("1h");
  const [made, setMade] = useState<Readonly<Record<"client_token" | "accessor", string>> | null>(null);
  const listed = useResource(["policies of a token"], (signal) =>
    api("LIST /v1/sys/policies/acl", { signal, quiet: true }),
  );
  const known = (listed.value?.data.keys ?? []).filter((each) => each !== "root");
  const body = {
    ...(name && { display_name: name }),
    policies: listOf(policies),
    ...(ttl && { ttl }),
    no_parent: false,
  };
  const isReady = body.policies.length > 0;
  const create = async (): Promise<void> => {
    const { auth } = await api("POST /v1/auth/token/create", { body, sensitive: true });
    setMade(auth);
  };
  if (made)
    return (
      <Dialog
        title="The token is created"
        onClose={onClose}
        footer={
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        }
      >
        <div class="form">
          <p>The token is shown here only. It ends with yours, which is its parent.</p>
          <ShownOnce what="the token">
            <Masked value={made.client_token} label="the token" />
          </ShownOnce>
          <p>
            Accessor: <code>{made.accessor}</code>. <Check accessor={made.accessor} />
          </p>
        </div>
      </Dialog>
    );
  return (
    <FormDialog
      title="Create a token"
      verb="Create token"
      shape="box"
      onClose={onClose}
      perform={create}
      isReady={isReady}
      request={wireRequest("POST /v1/auth/token/create", { body })}
    >
      <TextField
        label="Display name"
        value={name}
        onChange={setName}
        autofocus
        hint="Shown in lists and in the audit log."
      />
      {known.length > 0 && known.length <= MAX_CHOICES ? (
        <Choices
          label="Policies"
          names={known}
          value={body.policies}
          onChange={(chosen) => setPolicies(chosen.join(","))}
        />
      ) : (
        <TextField
          label="Policies"
          required
          mono
          value={policies}
          onChange={setPolicies}
          hint="Names, separated by commas."
        />
      )}
      <TextField label="Time to live" mono value={ttl} onChange={setTtl} hint="Such as 30m, 8h or 7d." />
    </FormDialog>
  );
}
