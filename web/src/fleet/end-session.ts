import { answerOf, api } from "../api/client";

export function endSession(sessionId: string) {
  const path = { params: { path: { session_id: sessionId } } };
  return answerOf(api.DELETE("/api/v1/sessions/{session_id}", path));
}
