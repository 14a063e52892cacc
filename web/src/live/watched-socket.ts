import type { Connection } from "./console-socket";

const NORMAL = 1000;
/** What was asked for is not there. */
const POLICY = 1008;
const UNAUTHORIZED = 4401;
const FORBIDDEN = 4403;
const FOR_GOOD: readonly number[] = [NORMAL, POLICY, UNAUTHORIZED, FORBIDDEN];
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

interface Heard<Message> {
  onMessage: (message: Message) => void;
  onConnection: (connection: Connection) => void;
}

/**
 * Listen to a socket of this server while the tab can be seen; one that is lost is opened again,
 * one that the server ends as it should is not. What is returned ends it.
 */
export function watchSocket<Message>(path: string, heard: Heard<Message>): () => void {
  let socket: WebSocket | null = null;
  let pauseMs = FIRST_PAUSE_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;

  const open = () => {
    heard.onConnection("connecting");
    const address = new URL(path, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const opened = new WebSocket(address);
    socket = opened;
    opened.onmessage = (event: MessageEvent<string>) => {
      pauseMs = FIRST_PAUSE_MS;
      heard.onConnection("live");
      heard.onMessage(JSON.parse(event.data) as Message);
    };
    opened.onclose = (event) => {
      if (socket !== opened) return;
      socket = null;
      if (FOR_GOOD.includes(event.code)) {
        isOver = true;
        heard.onConnection(endOf(event.code));
        return;
      }
      heard.onConnection("lost");
      timer = setTimeout(adjust, pauseMs * (0.5 + Math.random()));
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    };
  };
  const close = () => {
    const closed = socket;
    socket = null;
    closed?.close();
  };
  const adjust = () => {
    clearTimeout(timer);
    if (isOver) return;
    if (document.hidden) close();
    else if (socket === null) open();
  };
  document.addEventListener("visibilitychange", adjust);
  adjust();
  return () => {
    document.removeEventListener("visibilitychange", adjust);
    isOver = true;
    clearTimeout(timer);
    close();
  };
}

function endOf(code: number): Connection {
  if (code === UNAUTHORIZED) return "signed-out";
  return code === FORBIDDEN ? "refused" : "idle";
}
