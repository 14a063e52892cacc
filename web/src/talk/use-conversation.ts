import { useCallback, useEffect, useRef, useState } from "react";

import {
  Conversation,
  NOTHING_YET,
  type ConversationOptions,
  type ConversationView,
  type TalkRoom,
} from "./conversation";
import { Speaker } from "./speaker";

/** What the conversations of a page share; made when the first of them begins. */
export function useTalkRoom(): () => TalkRoom {
  const room = useRef<TalkRoom | null>(null);
  useEffect(
    () => () => {
      void room.current?.speaker.close();
      room.current = null;
    },
    [],
  );
  // Browsers let a page make sound once its reader has done something on it.
  return useCallback(() => (room.current ??= { speaker: new Speaker(), beganAt: Date.now() }), []);
}

export interface OneConversation {
  view: ConversationView;
  /** The conversation, begun when something is first said. */
  begun: () => Conversation;
  stopListening: () => Promise<void>;
}

/** One person's conversation. It ends with the page. */
export function useConversation(room: () => TalkRoom, asked: ConversationOptions): OneConversation {
  const [view, setView] = useState(NOTHING_YET);
  const conversation = useRef<Conversation | null>(null);
  useEffect(() => {
    conversation.current?.adopt(asked);
  });
  useEffect(
    () => () => {
      void conversation.current?.end();
      conversation.current = null;
    },
    [],
  );
  const begun = () => (conversation.current ??= new Conversation(room(), asked, setView));
  const stopListening = async () => {
    await conversation.current?.stopListening();
  };
  return { view, begun, stopListening };
}
