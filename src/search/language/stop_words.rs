//! Words that carry no meaning of their own in a question, folded.

/// True for a folded word that is one of them, in English or German.
pub fn is_stop_word(word: &str) -> bool {
    is_english(word) || is_german(word)
}

/// True for one of the English words.
pub fn is_english(word: &str) -> bool {
    ENGLISH.split(' ').any(|known| known == word)
}

/// True for one of the German words.
pub fn is_german(word: &str) -> bool {
    GERMAN.split(' ').any(|known| known == word)
}

const ENGLISH: &str = "a about above after again against all also am an and any anything are as at be because been before being below \
    between both but by can cannot could did do does doing don done down during each few find for from further get \
    gets getting give got had has have having he her here hers him his how i if in into is isn it its itself just \
    let like ll make many may me might more most much must my no nor not now of off on once one only onto or other \
    our ours out over own per please re remember same shall she should show since so some something still such tell \
    than that the their theirs them then there these they thing things this those through to too under until up upon \
    us use used using ve very via was wasn way we were what when where whether which while who whom whose why will \
    with within without would yet you your yours";

const GERMAN: &str = "ab aber alle allem allen aller alles als am an ander andere anderen anderer anderes auch auf aus bei bin bis \
    bist da damit dann das dass dein deine dem den denn der des dessen die dies diese diesem diesen dieser dieses \
    doch dort du durch ein eine einem einen einer eines einig einige er es etwas euer fur gegen gewesen hab habe \
    haben hat hatte hatten hier hin hinter ich ihr ihre im in indem ins ist ja jede jedem jeden jeder jedes jene \
    kann kein keine keinem keinen keiner konnen konnte machen man mehr mein meine mit muss musste nach nicht nichts \
    noch nun nur ob oder ohne sehr sein seine sich sie sind so solche soll sollte sondern sonst uber um und uns \
    unser unsere unter viel vom von vor wahrend wann war waren warst warum was weg weil weiter welche welchem \
    welchen welcher welches wenn werde werden wie wieder wieso will wir wird wirst wo wohin wollen wollte worden \
    wurde wurden zu zum zur zwar zwischen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_are_stop_words_and_terms_of_the_trade_are_not() {
        assert!(["the", "why", "did", "warum", "nicht", "fur"].iter().all(|word| is_stop_word(word)));
        assert!(!["token", "index", "null", "not_found", "error"].iter().any(|word| is_stop_word(word)));
    }
}
