import { NOTHING_KNOWN, told, type ConsoleMessage, type FleetState, type Topic } from "./fleet-state";

export type Connection = "idle" | "connecting" | "live" | "lost" | "refused" | "signed-out";

const UNAUTHORIZED = 4401;
const FORBIDDEN = 4403;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/**
 * One socket for the whole console. It is open while a page watches something and the tab can be
 * seen; a lost one is opened again, and goes on where it stood.
 */
class ConsoleSocket {
  state: FleetState = NOTHING_KNOWN;
  connection: Connection = "idle";
  /** When the connection was lost, until it is there again. */
  lostAt: string | null = null;
  private readonly watched = new Map<Topic, number>();
  private readonly listeners = new Set<() => void>();
  private readonly hearers = new Set<(message: ConsoleMessage) => void>();
  private socket: WebSocket | null = null;
  private pauseMs = FIRST_PAUSE_MS;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => {
      this.pauseMs = FIRST_PAUSE_MS;
      this.adjust();
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Be given each message as it comes, until what is returned is called. */
  hear(hearer: (message: ConsoleMessage) => void): () => void {
    this.hearers.add(hearer);
    return () => this.hearers.delete(hearer);
  }

  /** Have topics kept up to date, until what is returned is called. */
  watch(topics: readonly Topic[]): () => void {
    this.count(topics, 1);
    return () => {
      this.count(topics, -1);
    };
  }

  /** Forget everything: another person may sign in. */
  signOut(): void {
    this.state = NOTHING_KNOWN;
    this.close();
    this.become("idle");
  }

  private count(topics: readonly Topic[], step: number): void {
    for (const topic of topics) {
      const count = (this.watched.get(topic) ?? 0) + step;
      if (count > 0) this.watched.set(topic, count);
      else this.watched.delete(topic);
    }
    // A page that gives way to another leaves and comes in one turn: the socket stays.
    queueMicrotask(() => {
      this.adjust();
    });
  }

  private adjust(): void {
    clearTimeout(this.timer);
    if (this.watched.size === 0 || document.hidden) {
      this.close();
      this.become("idle");
    } else if (this.socket === null) {
      this.open();
    } else if (this.socket.readyState === WebSocket.OPEN) {
      this.sendWatch(this.socket);
    }
  }

  private open(): void {
    // It stays lost until it is live again, however often it is tried.
    if (this.connection !== "lost") this.become("connecting");
    const address = new URL("/ws/console", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onopen = () => {
      this.sendWatch(socket);
      // Where nothing has changed since, the server has nothing to say.
      const { cursors } = this.state;
      const isKnown = [...this.watched.keys()].every((topic) => cursors[topic] !== undefined);
      if (isKnown) this.become("live");
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      this.take(JSON.parse(event.data) as ConsoleMessage);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (event.code === UNAUTHORIZED) {
        this.state = NOTHING_KNOWN;
        this.become("signed-out");
        return;
      }
      if (event.code === FORBIDDEN) {
        this.become("refused");
        return;
      }
      this.become("lost");
      this.timer = setTimeout(() => {
        this.adjust();
      }, this.pauseMs * (0.5 + Math.random()));
      this.pauseMs = Math.min(2 * this.pauseMs, LONGEST_PAUSE_MS);
    };
  }

  private close(): void {
    const socket = this.socket;
    this.socket = null;
    // A browser complains of one that is closed before it was open.
    if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => { socket.close(); };
    else socket?.close();
  }

  private sendWatch(socket: WebSocket): void {
    const topics = [...this.watched.keys()];
    socket.send(JSON.stringify({ type: "watch", topics, cursors: this.state.cursors }));
  }

  private take(message: ConsoleMessage): void {
    this.pauseMs = FIRST_PAUSE_MS;
    this.state = told(this.state, message);
    for (const hearer of this.hearers) hearer(message);
    if ("more" in message && message.more) return;
    if (this.connection === "live") this.tell();
    else this.become("live");
  }

  private become(connection: Connection): void {
    if (connection === this.connection) return;
    this.connection = connection;
    this.lostAt = connection === "lost" ? new Date().toISOString() : null;
    this.tell();
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

export const consoleSocket = new ConsoleSocket();
