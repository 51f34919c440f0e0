//! Messages of answers without results: several answers to one rank are one message, which another
//! message may follow.

use super::{ANSWERS, ANSWERS_OVERHEAD, Message, REPLY, buffer, with_bytes, with_words};

/// The most answers that queued messages are joined to: most nets send so short a message inline.
const MOST_JOINED: usize = 14;

/// Answers to the requests of these tokens, followed by another message.
pub(in crate::messages) fn encode_answers(tokens: &[u64], message: &[u8]) -> Vec<u8> {
    with_bytes(answers_with_room(tokens, message.len()), message)
}

/// Answers with room for a message of `room` bytes after them.
pub(in crate::messages) fn answers_with_room(tokens: &[u64], room: usize) -> Vec<u8> {
    let mut out = buffer(ANSWERS_OVERHEAD + 8 * tokens.len() + room);
    out.push(ANSWERS);
    out.extend_from_slice(&(tokens.len() as u64).to_ne_bytes());
    with_words(out, tokens)
}

/// Adds the answer to the request of this token to a message that consists of one or more answers.
/// Returns false, without a change, where the message is another one or is full.
pub(in crate::messages) fn add_answer(message: &mut Vec<u8>, token: u64) -> bool {
    let number = match Message::decode(message) {
        Some(Message::Reply { bytes: [], .. }) => 1,
        Some(Message::Answers { tokens, rest: [] }) => tokens.len(),
        _ => return false,
    };
    if number >= MOST_JOINED {
        return false;
    }
    let count = (number as u64 + 1).to_ne_bytes();
    if message[0] == REPLY {
        message.splice(..1, [ANSWERS].into_iter().chain(count));
    } else {
        message[1..ANSWERS_OVERHEAD].copy_from_slice(&count);
    }
    message.extend_from_slice(&token.to_ne_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_join_messages_of_answers_alone() {
        let mut message = Message::Reply { token: 1, bytes: &[] }.encode();
        let joined = (2..).take_while(|&token| add_answer(&mut message, token)).count();
        let tokens: Vec<u64> = (1..=MOST_JOINED as u64).collect();
        assert_eq!((joined + 1, &message), (MOST_JOINED, &encode_answers(&tokens, &[])));
        let followed = encode_answers(&[1], &Message::Reply { token: 2, bytes: &[] }.encode());
        for other in [followed, Message::Reply { token: 1, bytes: &[7] }.encode(), Vec::new()] {
            let mut message = other.clone();
            assert!(!add_answer(&mut message, 3) && message == other, "{other:?}");
        }
    }
}
