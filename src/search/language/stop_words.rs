//! Words that carry no meaning of their own in a question: English and German, folded.

/// True for a folded word that is one of them.
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split(' ').any(|known| known == word)
}

const STOP_WORDS: &str = "a ab aber about above after again against all alle allem allen aller alles als also am an and ander andere \
    anderen anderer anderes any anything are as at auch auf aus be because been before bei being below between bin \
    bis bist both but by can cannot could da damit dann das dass dein deine dem den denn der des dessen did die dies \
    diese diesem diesen dieser dieses do doch does doing don done dort down du durch during each ein eine einem \
    einen einer eines einig einige er es etwas euer few find for from fur further gegen get gets getting gewesen \
    give got hab habe haben had has hat hatte hatten have having he her here hers hier him hin hinter his how i ich \
    if ihr ihre im in indem ins into is isn ist it its itself ja jede jedem jeden jeder jedes jene just kann kein \
    keine keinem keinen keiner konnen konnte let like ll machen make man many may me mehr mein meine might mit more \
    most much muss musste must my nach nicht nichts no noch nor not now nun nur ob oder of off ohne on once one only \
    onto or other our ours out over own per please re remember same sehr sein seine shall she should show sich sie \
    since sind so solche soll sollte some something sondern sonst still such tell than that the their theirs them \
    then there these they thing things this those through to too uber um und under uns unser unsere unter until up \
    upon us use used using ve very via viel vom von vor wahrend wann war waren warst warum was wasn way we weg weil \
    weiter welche welchem welchen welcher welches wenn werde werden were what when where whether which while who \
    whom whose why wie wieder wieso will wir wird wirst with within without wo wohin wollen wollte worden would \
    wurde wurden yet you your yours zu zum zur zwar zwischen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_are_stop_words_and_terms_of_the_trade_are_not() {
        assert!(["the", "why", "did", "warum", "nicht", "fur"].iter().all(|word| is_stop_word(word)));
        assert!(!["token", "index", "null", "not_found", "error"].iter().any(|word| is_stop_word(word)));
    }
}
